# SPDX-License-Identifier: MPL-2.0
"""Draws the figures with gnuplot: a panel for each table worth a look."""

import subprocess

#: Panels of a mode: measurement and figure.
PANELS = {
    "sizes": (("latency", "median_us"), ("latency", "p99_us"), ("throughput", "messages_s"), ("throughput", "cpu_us")),
    "fanout": (("fanout", "deliveries_s"), ("fanout", "cpu_us")),
    "threads": (("throughput", "messages_s"), ("throughput", "cpu_us")),
    "memory": (("crowd", "server_idle_kib"), ("crowd", "server_active_kib")),
    "busy": (("latency", "median_us"), ("latency", "cpu_us"), ("throughput", "messages_s"), ("throughput", "cpu_us")),
}


def _series(summary, mode_name, row, what, figure):
    """Lines of a panel: name, and points of x, median, least, most."""
    lines = {}
    for entry in summary:
        value = entry["figures"].get(figure)
        if entry["mode"] == mode_name and entry["what"] == what and value and value[1] > 0:
            name = entry["variant"] if row == "size" else f"{entry['variant']}, {entry['size']} B"
            lines.setdefault(name, []).append((entry[row], *value))
    return lines


def _panel(title, row, lines):
    """Commands and data of a panel."""
    words = [f'set title "{title}"', f'set xlabel "{row}"']
    for index, points in enumerate(lines.values()):
        words.append(f"$data{index} << end")
        words += [" ".join(f"{value:.6g}" for value in point) for point in sorted(points)]
        words.append("end")
    plots = []
    for index, name in enumerate(lines):
        plots.append(f'$data{index} using 1:2:3:4 with yerrorlines lt {index + 1} pt 7 ps 0.4 title "{name}"')
    return words + ["plot " + ", ".join(plots)]


def script(path, title, modes, summary, units):
    """What gnuplot is told."""
    panels = []
    for name, mode in modes.items():
        row = {"size": "bytes", "peers": "peers", "io_threads": "I/O threads"}[mode.row]
        for what, figure in PANELS[name]:
            lines = _series(summary, name, mode.row, what, figure)
            if lines:
                panels.append(_panel(f"{mode.title}\\n{what}: {units[what][figure]}", row, lines))
    rows = -(-len(panels) // 2)
    terminal = "svg" if path.endswith(".svg") else "pngcairo"
    head = [
        f"set terminal {terminal} size 1200,{420 * rows} noenhanced background 'white'",
        f'set output "{path}"',
        "set logscale xy",
        "set grid",
        "set key below",
        f'set multiplot layout {rows},2 title "{title}"',
    ]
    return "\n".join(head + [word for panel in panels for word in panel] + ["unset multiplot", ""])


def draw(gnuplot, path, *rest):
    """Write the plot; what gnuplot complains of is returned."""
    done = subprocess.run([gnuplot], input=script(path, *rest), capture_output=True, text=True, check=False)
    return done.stderr.strip() if done.returncode else ""
