import json

train = json.load(open("input/train.json"))
test = json.load(open("input/test.json"))

rate = sum(r["requester_received_pizza"] for r in train) / len(train)
# requests that say they will pay it forward do a bit better
out = ["request_id,requester_received_pizza"]
for r in test:
    text = r["request_text_edit_aware"].lower()
    p = rate + 0.05 * ("pay it forward" in text) + 0.03 * ("job" in text) + min(len(text), 2000) / 20000
    out.append(f"{r['request_id']},{min(p, 1):.4f}")

fh = open("submission.csv", "w")
fh.write("\n".join(out) + "\n")
fh.close()
