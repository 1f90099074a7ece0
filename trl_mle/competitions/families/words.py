"""What the generated tasks are about: their stories, names of columns, and phrases of their texts."""

from typing import NamedTuple


class Number(NamedTuple):
    """
    A column of measurements.

    Args:
        name (`str`):
            Its name, without the unit.
        unit (`str`):
            Its unit, which is part of the column's name; empty for a count or an index.
        centre (`float`):
            Median, in that unit.
        spread (`float`):
            Standard deviation in that unit; of the logarithm where `skewed`.
        skewed (`bool`, *optional*, defaults to `False`):
            Whether its logarithm has a normal distribution, and not the value itself.
    """

    name: str
    unit: str
    centre: float
    spread: float
    skewed: bool = False

    @property
    def column(self) -> str:
        """What it is called in a file."""
        return f"{self.name}_{self.unit}" if self.unit else self.name


class Domain(NamedTuple):
    """
    A setting for tasks.

    Args:
        title (`str`):
            Heading of the description.
        row (`str`), rows (`str`):
            What a row stands for, in the singular and the plural.
        story (`str`):
            One or two sentences that lead to the task.
        numbers (`tuple[Number, ...]`):
            Measurements, at least seven, of which three have a unit of `OTHER_UNITS`.
        categories (`dict[str, tuple[str, ...]]`):
            Columns with names, and the names.
        ordered (`tuple[str, tuple[str, ...]]`):
            A column with names that have an order, and the names from low to high.
        group (`tuple[str, tuple[str, ...]]`):
            A column with codes of many places or persons, and the prefixes with which they begin.
        date (`str`):
            A column with days.
        text (`tuple[str, tuple[str, ...]]`):
            A column with notes, and the phrases that they are made of.
        yes_or_no (`tuple[str, str]`), kind (`tuple[str, str, tuple[str, ...]]`), grade (`tuple[str, str]`),
        amount (`tuple[str, str]`), value (`tuple[str, str]`):
            What there is to be predicted, by the form that it has: a column, and what it means. A kind has its labels, a
            grade lies from 1 to 5, an amount is positive.
        leak (`str`):
            A column that is filled in afterwards.
        number (`str`):
            A column with a running number.
    """

    title: str
    row: str
    rows: str
    story: str
    numbers: tuple[Number, ...]
    categories: dict[str, tuple[str, ...]]
    ordered: tuple[str, tuple[str, ...]]
    group: tuple[str, tuple[str, ...]]
    date: str
    text: tuple[str, tuple[str, ...]]
    yes_or_no: tuple[str, str]
    kind: tuple[str, str, tuple[str, ...]]
    grade: tuple[str, str]
    amount: tuple[str, str]
    value: tuple[str, str]
    leak: str
    number: str


# What a unit may be mistaken for, and how many of these it has
OTHER_UNITS = {
    "km": ("m", 1000),
    "m": ("cm", 100),
    "mm": ("cm", 0.1),
    "kg": ("g", 1000),
    "g": ("mg", 1000),
    "l": ("ml", 1000),
    "h": ("min", 60),
    "min": ("s", 60),
    "mw": ("kw", 1000),
}

DOMAINS = {
    "parcels": Domain(
        title="Parcels in the mountains",
        row="parcel",
        rows="parcels",
        story="A courier delivers to mountain villages. Each parcel is weighed, measured and routed when it is dropped off.",
        numbers=(
            Number("distance", "km", 42, 0.6, True),
            Number("weight", "kg", 3.5, 0.8, True),
            Number("length", "m", 0.6, 0.12),
            Number("climb", "m", 800, 260),
            Number("handling", "min", 25, 6),
            Number("insured", "eur", 80, 0.9, True),
            Number("stops_on_route", "", 14, 4),
            Number("temperature", "c", 6, 7),
        ),
        categories={
            "service": ("standard", "express", "economy", "overnight"),
            "packaging": ("box", "bag", "tube", "crate", "envelope"),
            "weather": ("clear", "rain", "snow", "fog"),
        },
        ordered=("fragility", ("none", "low", "medium", "high")),
        group=("depot", ("N", "E", "S", "W")),
        date="dropped_off",
        text=(
            "driver_note",
            (
                "box dented",
                "road closed",
                "nobody home",
                "left with neighbour",
                "narrow lane",
                "steep drive",
                "gate locked",
                "dog in yard",
                "paid on delivery",
                "label smudged",
                "called ahead",
                "second attempt",
                "ferry delayed",
                "signed by hand",
            ),
        ),
        yes_or_no=("late", "whether it arrives late (1) or in time (0)"),
        kind=("ending", "how its delivery ends", ("handed over", "left outside", "picked up", "returned")),
        grade=("rating", "the customer's rating from 1 (poor) to 5 (excellent)"),
        amount=("cost_eur", "what its delivery costs, in euros"),
        value=("delay_h", "its delay in hours, negative if it is early"),
        leak="claim_points",
        number="ledger_no",
    ),
    "clinic": Domain(
        title="Visits to a clinic",
        row="visit",
        rows="visits",
        story="A day clinic examines its patients on arrival. The figures are known before a doctor has seen them.",
        numbers=(
            Number("heart_rate", "bpm", 76, 12),
            Number("systolic", "mmhg", 128, 16),
            Number("body_mass", "kg", 74, 13),
            Number("height", "m", 1.71, 0.09),
            Number("waiting", "min", 35, 0.5, True),
            Number("glucose", "mgdl", 98, 0.2, True),
            Number("sleep", "h", 6.8, 1.1),
            Number("past_visits", "", 9, 3),
        ),
        categories={
            "arrival": ("on foot", "ambulance", "referral", "relative"),
            "insurance": ("public", "private", "uninsured"),
            "complaint": ("chest", "back", "head", "stomach", "skin"),
        },
        ordered=("pain", ("none", "mild", "moderate", "severe")),
        group=("physician_code", ("A", "C", "G", "R", "T")),
        date="visit_date",
        text=(
            "nurse_note",
            (
                "feels dizzy",
                "short of breath",
                "took painkillers",
                "had coffee",
                "slept badly",
                "walks unaided",
                "smokes daily",
                "pale skin",
                "slight fever",
                "knee swollen",
                "talks fast",
                "skipped breakfast",
                "family history",
                "runs weekly",
            ),
        ),
        yes_or_no=("returns", "whether the patient returns within a month (1) or not (0)"),
        kind=("ward", "the ward that the patient is sent to", ("cardiology", "surgery", "neurology", "home")),
        grade=("urgency", "the doctor's urgency from 1 (can wait) to 5 (at once)"),
        amount=("bill_eur", "what the visit is billed at, in euros"),
        value=("change_in_score", "how the patient's score changes over the following month"),
        leak="discharge_index",
        number="chart_no",
    ),
    "greenhouse": Domain(
        title="Tomatoes under glass",
        row="bed",
        rows="beds",
        story="A grower of tomatoes logs the climate and the treatment of every bed in the greenhouse.",
        numbers=(
            Number("water", "l", 18, 0.35, True),
            Number("fertiliser", "g", 45, 12),
            Number("light", "h", 13, 1.8),
            Number("humidity", "pct", 68, 9),
            Number("temperature", "c", 22, 3),
            Number("stem", "mm", 11, 2),
            Number("soil_salt", "ds", 2.1, 0.4, True),
            Number("plants", "", 24, 4),
        ),
        categories={
            "variety": ("san marzano", "brandywine", "cherry", "roma", "moneymaker"),
            "substrate": ("peat", "coir", "rock wool"),
            "irrigation": ("drip", "flood", "spray"),
        },
        ordered=("pruning", ("never", "monthly", "weekly", "daily")),
        group=("house_code", ("F", "L", "M", "Q")),
        date="planted",
        text=(
            "gardener_note",
            (
                "leaves curling",
                "white flies",
                "new bulbs",
                "shaded at noon",
                "bees active",
                "vent stuck",
                "roots healthy",
                "yellow tips",
                "pump serviced",
                "mulch added",
                "mould on stems",
                "ties renewed",
                "early flowers",
                "slow growth",
            ),
        ),
        yes_or_no=("blight", "whether it catches blight (1) or not (0)"),
        kind=("class_sold", "the class as which its fruit is sold", ("premium", "table", "sauce", "compost")),
        grade=("taste", "the panel's mark for taste from 1 to 5"),
        amount=("yield_kg", "its yield in kilograms"),
        value=("sugar_deviation", "how far the sugar of its fruit lies from the usual, in degrees Brix"),
        leak="packing_score",
        number="tray_no",
    ),
    "bikes": Domain(
        title="Rented bicycles",
        row="rental",
        rows="rentals",
        story="A city rents bicycles at docking stations. What is known when a bicycle is unlocked is stored with the rental.",
        numbers=(
            Number("planned_route", "km", 3.2, 0.5, True),
            Number("battery", "pct", 71, 14),
            Number("rider_age", "years", 34, 9),
            Number("wind", "kmh", 14, 0.45, True),
            Number("frame_load", "kg", 76, 12),
            Number("last_service", "h", 210, 60),
            Number("elevation_gain", "m", 46, 0.6, True),
            Number("free_docks", "", 9, 3),
        ),
        categories={
            "bike_type": ("city", "electric", "cargo", "tandem"),
            "membership": ("casual", "monthly", "yearly"),
            "surface": ("asphalt", "gravel", "cobbles", "mixed"),
        },
        ordered=("rain", ("dry", "drizzle", "rain", "storm")),
        group=("station", ("CEN", "HAR", "UNI", "PAR")),
        date="day",
        text=(
            "rider_message",
            (
                "chain squeaks",
                "saddle loose",
                "great ride",
                "lost my way",
                "phone holder broken",
                "tyre soft",
                "brakes sharp",
                "heading to work",
                "with my kids",
                "bell missing",
                "smooth gears",
                "light flickers",
                "shopping trip",
                "first time",
            ),
        ),
        yes_or_no=("damaged", "whether the bicycle comes back damaged (1) or not (0)"),
        kind=("destination", "where the bicycle is returned", ("centre", "harbour", "campus", "suburb")),
        grade=("stars", "the stars that the rider gives, 1 to 5"),
        amount=("minutes", "how many minutes the rental lasts"),
        value=("detour_km", "how many kilometres it exceeds the planned route by, negative if it is shorter"),
        leak="closing_fee_points",
        number="receipt_no",
    ),
    "cars": Domain(
        title="Used cars at a dealer",
        row="car",
        rows="cars",
        story="A dealer inspects used cars before they are put on the lot, and writes down what the mechanic finds.",
        numbers=(
            Number("driven", "km", 84000, 0.5, True),
            Number("engine", "l", 1.8, 0.3, True),
            Number("age", "years", 7, 2.4),
            Number("tyre_groove", "mm", 5.2, 1.1),
            Number("kerb_weight", "kg", 1380, 190),
            Number("power", "kw", 92, 0.35, True),
            Number("test_drive", "min", 18, 4),
            Number("previous_owners", "", 3, 1),
        ),
        categories={
            "fuel": ("petrol", "diesel", "hybrid", "electric"),
            "body": ("hatchback", "estate", "saloon", "van", "coupe"),
            "gearbox": ("manual", "automatic"),
        },
        ordered=("paint", ("dull", "fair", "good", "mint")),
        group=("seller_code", ("B", "D", "K", "P", "V")),
        date="inspected",
        text=(
            "mechanic_note",
            (
                "rust on sill",
                "new brakes",
                "oil leak",
                "full history",
                "clutch slips",
                "one lady owner",
                "cracked mirror",
                "spare key",
                "winter tyres",
                "radio dead",
                "smells of smoke",
                "towing hook",
                "belt replaced",
                "stone chips",
            ),
        ),
        yes_or_no=("sold_in_30_days", "whether it is sold within 30 days (1) or not (0)"),
        kind=("buyer", "who buys it", ("family", "trader", "company", "export")),
        grade=("condition", "the assessor's mark from 1 (scrap) to 5 (as new)"),
        amount=("repair_eur", "what it costs to prepare it for sale, in euros"),
        value=("margin", "how its margin differs from the plan, in hundreds of euros"),
        leak="settlement_index",
        number="stock_no",
    ),
    "tickets": Domain(
        title="Tickets of a help desk",
        row="ticket",
        rows="tickets",
        story="The help desk of a software house sorts incoming tickets. Each comes with a few facts about the customer.",
        numbers=(
            Number("log_attached", "kb", 210, 0.9, True),
            Number("first_reply", "min", 42, 0.6, True),
            Number("open_session", "h", 3.4, 0.5, True),
            Number("account_age", "months", 28, 9),
            Number("seats", "", 35, 9),
            Number("uptime", "h", 160, 45),
            Number("last_backup", "h", 20, 5),
            Number("screens_seen", "", 12, 3),
        ),
        categories={
            "channel": ("mail", "phone", "chat", "portal"),
            "product": ("ledger", "payroll", "planner", "archive", "reports"),
            "plan": ("free", "team", "enterprise"),
        },
        ordered=("severity", ("minor", "normal", "major", "critical")),
        group=("agent", ("BER", "LIS", "OSL", "WAW")),
        date="opened",
        text=(
            "subject",
            (
                "cannot log in",
                "slow export",
                "invoice wrong",
                "password reset",
                "blank page",
                "feature request",
                "printer offline",
                "thank you",
                "data missing",
                "crash on start",
                "licence expired",
                "colours odd",
                "sync fails",
                "urgent please",
            ),
        ),
        yes_or_no=("escalated", "whether it is escalated (1) or not (0)"),
        kind=("team", "the team that resolves it", ("billing", "platform", "frontend", "onboarding")),
        grade=("effort", "the effort it takes, from 1 to 5"),
        amount=("resolution_min", "how many minutes it takes to resolve"),
        value=("mood_change", "how the customer's mood changes over the conversation"),
        leak="wrapup_score",
        number="queue_no",
    ),
    "turbines": Domain(
        title="Wind turbines off the coast",
        row="inspection",
        rows="inspections",
        story="The operator of a wind farm inspects its turbines by boat, after their sensors were read out.",
        numbers=(
            Number("wind_speed", "ms", 9.1, 2.2),
            Number("blade", "m", 58, 6),
            Number("output", "mw", 2.4, 0.4, True),
            Number("vibration", "mm", 1.3, 0.5, True),
            Number("oil_temperature", "c", 54, 7),
            Number("since_service", "h", 900, 0.4, True),
            Number("wave_height", "m", 1.2, 0.4, True),
            Number("restarts", "", 11, 3),
        ),
        categories={
            "model": ("skadi", "boreas", "mistral", "zephyr"),
            "foundation": ("monopile", "jacket", "floating"),
            "gear": ("direct", "planetary", "hybrid"),
        },
        ordered=("corrosion", ("none", "spots", "patches", "heavy")),
        group=("array_code", ("NO", "SO", "DB", "HR")),
        date="inspected",
        text=(
            "crew_note",
            (
                "grease low",
                "hatch ajar",
                "blade chipped",
                "smooth run",
                "ice on nacelle",
                "birds nesting",
                "cable worn",
                "bolts tight",
                "loud hum",
                "filter clogged",
                "new bearing",
                "yaw sluggish",
                "paint peeling",
                "sensor swapped",
            ),
        ),
        yes_or_no=("fails", "whether the turbine fails within a week (1) or not (0)"),
        kind=("action", "what the crew does next", ("repair", "lubricate", "replace", "observe")),
        grade=("wear", "the wear of the gearbox from 1 (new) to 5 (worn out)"),
        amount=("downtime_min", "how many minutes the turbine stands still in the following week"),
        value=("output_error", "how far its output lies above the forecast, in units of 100 kW"),
        leak="report_index",
        number="log_no",
    ),
    "coffee": Domain(
        title="Batches of roasted coffee",
        row="batch",
        rows="batches",
        story="A roastery writes down how each batch of beans was bought, stored and roasted, and later has it tasted.",
        numbers=(
            Number("green_beans", "kg", 22, 5),
            Number("roast", "min", 11.5, 1.4),
            Number("drop_temperature", "c", 206, 6),
            Number("moisture", "pct", 10.8, 0.9),
            Number("altitude", "m", 1400, 260),
            Number("stored", "h", 380, 0.5, True),
            Number("bean", "mm", 6.6, 0.5),
            Number("airflow", "", 55, 9),
        ),
        categories={
            "origin": ("ethiopia", "brazil", "colombia", "sumatra", "guatemala"),
            "process": ("washed", "natural", "honey"),
            "roaster": ("drum", "air", "sample"),
        },
        ordered=("roast_level", ("light", "medium", "dark", "french")),
        group=("importer_code", ("H", "J", "S", "Z")),
        date="roasted",
        text=(
            "roaster_note",
            (
                "first crack early",
                "oily surface",
                "uneven colour",
                "floral smell",
                "chaff burnt",
                "slow start",
                "drum cleaned",
                "sweet aroma",
                "beans broken",
                "cooled quickly",
                "smoky finish",
                "new burner",
                "stones found",
                "citrus notes",
            ),
        ),
        yes_or_no=("rejected", "whether it is rejected at the tasting (1) or not (0)"),
        kind=("blend", "the blend it goes into", ("espresso", "filter", "house", "decaf")),
        grade=("cup_grade", "the grade given at the tasting, from 1 to 5"),
        amount=("price_eur", "the price it sells for, in euros"),
        value=("acidity_shift", "how its acidity differs from the house's usual"),
        leak="cupping_sheet_total",
        number="lot_no",
    ),
    "bookings": Domain(
        title="Bookings of a small hotel chain",
        row="booking",
        rows="bookings",
        story="A chain of small hotels stores what its guests enter when they book, and what they did on earlier stays.",
        numbers=(
            Number("booked_ahead", "days", 40, 0.8, True),
            Number("stay", "nights", 8, 2.2),
            Number("room_rate", "eur", 110, 0.35, True),
            Number("travel", "km", 310, 0.7, True),
            Number("site_visit", "min", 14, 0.5, True),
            Number("beach", "m", 900, 250),
            Number("flight", "h", 2.2, 0.4, True),
            Number("earlier_stays", "", 4, 1),
        ),
        categories={
            "board": ("room only", "breakfast", "half", "full"),
            "portal": ("own site", "agency", "comparison", "phone"),
            "room": ("single", "double", "family", "suite"),
        },
        ordered=("flexibility", ("fixed", "low", "medium", "free")),
        group=("hotel_code", ("AL", "BR", "CO", "MA")),
        date="arrival",
        text=(
            "guest_wish",
            (
                "late arrival",
                "quiet room",
                "sea view",
                "extra bed",
                "with a dog",
                "honeymoon trip",
                "vegan meals",
                "ground floor",
                "parking needed",
                "airport pickup",
                "no stairs",
                "high chair",
                "business stay",
                "invoice to company",
            ),
        ),
        yes_or_no=("cancelled", "whether it is cancelled (1) or not (0)"),
        kind=("purpose", "the purpose of the stay", ("holiday", "business", "family visit", "event")),
        grade=("review", "the guest's review from 1 to 5"),
        amount=("extras_eur", "what is spent on extras, in euros"),
        value=("length_change", "by how many nights the stay is extended, negative if it is cut short"),
        leak="checkout_points",
        number="reservation_no",
    ),
    "concrete": Domain(
        title="Samples of concrete",
        row="sample",
        rows="samples",
        story="A laboratory mixes, cures and breaks samples of concrete for building sites. Each mix is weighed in by hand.",
        numbers=(
            Number("cement", "kg", 5.6, 1.1),
            Number("water", "l", 2.4, 0.35),
            Number("sand", "kg", 13, 2),
            Number("additive", "g", 35, 0.6, True),
            Number("cured", "h", 520, 0.5, True),
            Number("slump", "mm", 110, 24),
            Number("mixing", "min", 7, 1.3),
            Number("air_content", "pct", 4.5, 0.9),
        ),
        categories={
            "cement_type": ("portland", "slag", "fly ash", "pozzolan"),
            "aggregate": ("gravel", "crushed", "recycled"),
            "mould": ("cube", "cylinder", "prism"),
        },
        ordered=("exposure", ("indoor", "damp", "frost", "sea")),
        group=("site_code", ("1A", "2C", "3B", "4D")),
        date="cast",
        text=(
            "lab_note",
            (
                "surface cracked",
                "bubbles seen",
                "well compacted",
                "mould leaked",
                "colour uneven",
                "dry edges",
                "steel fibres",
                "vibrated twice",
                "cold room",
                "sand was wet",
                "slow setting",
                "scale checked",
                "corner broken",
                "film cured",
            ),
        ),
        yes_or_no=("breaks_early", "whether it breaks below its rated load (1) or not (0)"),
        kind=("fracture", "how it breaks", ("cone", "shear", "split", "column")),
        grade=("finish", "the mark for its finish from 1 to 5"),
        amount=("load_kn", "the load at which it breaks, in kilonewtons"),
        value=("strength_deviation", "how far its strength lies above the recipe's, in units of 5 MPa"),
        leak="press_protocol_value",
        number="sheet_no",
    ),
}
