"""What tests share: made-up competitions, models, runs, servers."""
