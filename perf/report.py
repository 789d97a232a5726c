# SPDX-License-Identifier: MPL-2.0
"""From records to figures, ratios and tables."""

import statistics

#: The figures of each measurement: name, and what it is.
FIGURES = {
    "latency": (
        ("median_us", "one way, median, us"),
        ("p99_us", "one way, p99, us"),
        ("p999_us", "one way, p99.9, us"),
        ("cpu_us", "CPU of both sides, us a message"),
    ),
    "throughput": (
        ("messages_s", "messages a second"),
        ("cpu_us", "CPU of both sides, us a message"),
    ),
    "fanout": (
        ("deliveries_s", "deliveries a second"),
        ("cpu_us", "CPU of both sides, us a delivery"),
    ),
    "crowd": (
        ("server_idle_kib", "KiB a connection, server, idle"),
        ("server_active_kib", "KiB a connection, server, busy"),
        ("client_idle_kib", "KiB a connection and socket, client, idle"),
        ("client_active_kib", "KiB a connection and socket, client, busy"),
        ("connect_s", "seconds until all have sent a message"),
        ("idle_cpu", "CPU of the idle server, s a second"),
        ("messages_s", "messages a second"),
        ("spread", "messages of the median peer to those of the slowest"),
        ("extra", "connections accepted beyond those wanted, or lost"),
    ),
}
#: Of these a ratio says nothing: they may be nothing, or are ratios.
ABSOLUTE = ("idle_cpu", "spread", "extra")


def derive(what, record):
    """Add the figures that follow from what the program told."""
    keys = ("client_user_s", "client_system_s", "server_user_s", "server_system_s")
    if keys[0] in record:
        # Over inproc both sides are one process, and the client's time is all of it.
        used = sum(record[key] for key in keys[: 2 if record["variant"] == "inproc" else 4])
        record["cpu_s"] = used
        count = {"latency": 2 * record.get("trips", 0), "throughput": record.get("messages")}.get(what)
        if what == "fanout":
            count = record["published"] * record["peers"]
        record["cpu_us"] = used / count * 1e6
    if what == "crowd":
        record["spread"] = record["median"] / max(record["least"], 1)
        record["extra"] = record["accepted"] - record["connections"] + record["lost"]


def spread(values):
    """Median, least and most; None without any."""
    values = [value for value in values if value is not None]
    return [statistics.median(values), min(values), max(values)] if values else None


def summarise(records):
    """A summary for each cell and variant: of each figure its median, least and most, and those of its ratio to
    what tcp did in the same round."""
    groups = {}
    for record in records:
        key = tuple(record[name] for name in ("mode", "what", "size", "peers", "io_threads", "variant"))
        groups.setdefault(key, {})[record["round"]] = record
    summary = []
    for key, rounds in groups.items():
        beside = groups.get(key[:-1] + ("tcp",), {})
        entry = dict(zip(("mode", "what", "size", "peers", "io_threads", "variant"), key))
        entry["figures"], entry["ratios"] = {}, {}
        for name, _ in FIGURES[entry["what"]]:
            entry["figures"][name] = spread(record.get(name) for record in rounds.values())
            if name not in ABSOLUTE:
                entry["ratios"][name] = spread(
                    record[name] / beside[number][name]
                    for number, record in rounds.items()
                    if record.get(name) and beside.get(number, {}).get(name)
                )
        summary.append(entry)
    return summary


def number(value):
    """Four digits, more or less."""
    if value >= 1000:
        return f"{value:,.0f}"
    return f"{value:.{3 if value < 1 else 2 if value < 10 else 1}f}"


def cell_text(entry, name):
    """A figure, and its ratio to tcp with least and most."""
    figure = entry["figures"].get(name)
    if figure is None:
        return "-"
    text = number(figure[0])
    ratio = entry["ratios"].get(name)
    if ratio and entry["variant"] != "tcp":
        text += f" x{ratio[0]:.2f}"
        text += f" ({ratio[1]:.2f}-{ratio[2]:.2f})" if ratio[1] != ratio[2] else ""
    elif figure[1] != figure[2]:
        text += f" ({number(figure[1])}-{number(figure[2])})"
    return text


def tables(modes, summary):
    """Lines: a table for each figure of each mode."""
    for name, mode in modes.items():
        entries = [entry for entry in summary if entry["mode"] == name]
        yield f"== {mode.title} =="
        variants = list(dict.fromkeys(entry["variant"] for entry in entries))
        for what in dict.fromkeys(entry["what"] for entry in entries):
            for figure, unit in FIGURES[what]:
                yield from table(mode, what, figure, unit, variants, entries)
        yield ""


def table(mode, what, figure, unit, variants, entries):
    """One table."""
    mine = [entry for entry in entries if entry["what"] == what]
    if not any(entry["figures"].get(figure) for entry in mine):
        return
    rows = [["size" if mode.row == "size" else f"size {mode.row.replace('_', ' ')}"] + variants]
    for place in dict.fromkeys((entry["size"], entry[mode.row]) for entry in mine):
        label = str(place[0]) if mode.row == "size" else f"{place[0]} {place[1]}"
        here = {e["variant"]: e for e in mine if (e["size"], e[mode.row]) == place}
        rows.append([label] + [cell_text(here[v], figure) if v in here else "-" for v in variants])
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    yield f"{what}: {unit}"
    for row in rows:
        yield "  " + "  ".join(text.rjust(width) for text, width in zip(row, widths))
