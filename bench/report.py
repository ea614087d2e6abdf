# SPDX-License-Identifier: Apache-2.0
"""What the rounds come to: medians, ratios to nginx of the same round, and the aims."""
from __future__ import annotations

import os
import statistics
from dataclasses import asdict, dataclass
from typing import Any

from loads import CONNECTIONS
from promises import PROMISES, promises_text

Loads = dict[str, list[dict]]
FIRST, REPLAY, DISK, BIG = "pawl first", "pawl replay", "pawl replay, disk", "pawl first, big"
MIX, HALF, NGINX_HALF = "pawl mix", "pawl first, half", "nginx, that rate"
FLOOR, FLOOR_REPLAY, FLOOR_HALF = "floor first", "floor replay", "floor first, half"
BESIDE = " (beside)"  # behind the name of a row: pawl of another version
FIGURES = ("cpu_us", "per_s", "p50_us", "p99_us", "peak_mib")


@dataclass
class Aim:
    what: str
    measured: float
    aim: float
    at_least: bool = False

    def is_met(self) -> bool:
        return self.measured >= self.aim if self.at_least else self.measured <= self.aim

    def text(self) -> str:
        bound = f"{'at least' if self.at_least else 'at most'} {self.aim:g}"
        return (f"  {self.what:<46} {self.measured:>9.2f}  {bound:<14} "
                f"{'met' if self.is_met() else 'MISSED'}")


def ratio(loads: Loads, name: str, other: str, figure: str) -> float:
    """The median of the rounds' own ratios: what else the machine did meanwhile cancels."""
    return statistics.median(
        load[figure] / beside[figure] for load, beside in zip(loads[name], loads[other]))


def rows_of(loads: Loads) -> dict[str, dict]:
    rows = {}
    for name, of in loads.items():
        row = {figure: statistics.median(load[figure] for load in of) for figure in FIGURES}
        row["cpu_least"] = min(load["cpu_us"] for load in of)
        row["cpu_most"] = max(load["cpu_us"] for load in of)
        row["peak_mib"] = max(load["peak_mib"] for load in of)
        at_half = name.removesuffix(BESIDE) in (HALF, FLOOR_HALF, NGINX_HALF)
        row["to_nginx"] = ratio(loads, name, NGINX_HALF if at_half else "nginx", "cpu_us")
        rows[name] = row
    return rows


def share(loads: Loads, name: str, figure: str) -> float:
    """Of the other version's: the mean over all rounds, as who came first in a round has an
    advantage, and half of the rounds each had it."""
    return statistics.geometric_mean(
        load[figure] / other[figure] for load, other in zip(loads[name], loads[name + BESIDE]))


def at_64(pairs: list[dict]) -> float:
    return next(pair["pairs_per_s"] for pair in pairs if pair["in_flight"] == CONNECTIONS)


def beside_aims(loads: Loads, pairs: list[dict], beside: list[dict]) -> list[Aim]:
    """Beside 0.1.0, which took 39 us where these ask for 29, and did 52,000 pairs."""
    most = {FIRST: 0.75, HALF: 0.75, REPLAY: 0.7, DISK: 0.75}
    cpu = [Aim(f"{name}, CPU, share of the other's", share(loads, name, "cpu_us"), aim)
           for name, aim in most.items()]
    return cpu + [Aim("store, pairs/s at 64, times the other's",
                      at_64(pairs) / at_64(beside), 70 / 52, at_least=True)]


def peer_aims(loads: Loads) -> list[Aim]:
    """By the best of the peers that sync."""
    syncing = [promise.name for promise in PROMISES.values()
               if promise.is_peer and promise.syncs and f"{promise.name} first" in loads]
    return [Aim(f"pawl {what}, CPU, times the best synced peer's",
                max(ratio(loads, f"pawl {what}", f"{peer} {what}", "cpu_us") for peer in syncing),
                0.5)
            for what in ("first", "replay") if syncing]


def aims_of(loads: Loads, pairs: list[dict], beside: list[dict]) -> list[Aim]:
    rows = rows_of(loads)
    memory = max(rows[name]["peak_mib"] for name in rows
                 if name.startswith("pawl") and name != BIG and not name.endswith(BESIDE))
    aims = beside_aims(loads, pairs, beside) if beside else []
    aims += [*peer_aims(loads),
             Aim("pawl first, half, p99, ms", rows[HALF]["p99_us"] / 1e3, 4),
             Aim("memory of pawl, peak, MiB", memory, 56)]
    if BIG in loads:
        aims.append(Aim("first attempts/s with the big store, share",
                        ratio(loads, BIG, FIRST, "per_s"), 0.8, at_least=True))
    return aims


def results_of(loads: Loads, pairs: list[dict], beside: list[dict]) -> dict:
    aims = [{**asdict(aim), "met": aim.is_met()} for aim in aims_of(loads, pairs, beside)]
    return {"rows": rows_of(loads), "store": pairs, "aims": aims}


# ---- text ----


def rows_text(loads: Loads) -> list[str]:
    lines = [f"{'':<27} {'CPU us/request':>14} {'least-most':>13} {'to nginx':>8} "
             f"{'requests/s':>10} {'p50 ms':>7} {'p99 ms':>7} {'MiB':>6}"]
    for name, row in rows_of(loads).items():
        spread = f"{row['cpu_least']:.1f}-{row['cpu_most']:.1f}"
        lines.append(f"{name:<27} {row['cpu_us']:>14.1f} {spread:>13} {row['to_nginx']:>8.2f} "
                     f"{row['per_s']:>10.0f} {row['p50_us'] / 1e3:>7.2f} "
                     f"{row['p99_us'] / 1e3:>7.2f} {row['peak_mib']:>6.1f}")
    return lines


def floor_text(loads: Loads) -> list[str]:
    """How much of what pawl takes the promise itself would cost."""
    times = [f"{what} {ratio(loads, name, floor, 'cpu_us'):.2f}"
             for what, name, floor in (("first attempt", FIRST, FLOOR),
                                       ("at half the rate", HALF, FLOOR_HALF),
                                       ("replay from disk", DISK, FLOOR_REPLAY))]
    return ["pawl's CPU, times the floor's: " + ", ".join(times)]


def threads_text(loads: Loads) -> list[str]:
    lines = ["threads of pawl and of the floor, us of CPU a request (user + kernel)"]
    for name in (name for name in loads if name.startswith(("pawl", "floor"))):
        parts = [f"{thread} {user:.1f}+{kernel:.1f}"
                 for thread, (user, kernel) in sorted(loads[name][-1]["threads"].items())
                 if user + kernel >= 0.05]
        lines.append(f"{name:<27} " + ", ".join(parts))
    return lines


def store_text(pairs: list[dict]) -> list[str]:
    lines = [f"the store alone: durable pairs, {pairs[0]['records']} records present",
             f"{'in flight':>12} {'pairs/s':>9} {'CPU us/pair':>12} {'begin p50/p99 ms':>17} "
             f"{'finish p50/p99 ms':>18}"]
    for pair in pairs:
        begin = f"{pair['begin_p50_us'] / 1e3:.2f}/{pair['begin_p99_us'] / 1e3:.2f}"
        finish = f"{pair['finish_p50_us'] / 1e3:.2f}/{pair['finish_p99_us'] / 1e3:.2f}"
        lines.append(f"{pair['in_flight']:>12} {pair['pairs_per_s']:>9.0f} "
                     f"{pair['cpu_us_per_pair']:>12.1f} {begin:>17} {finish:>18}")
    return lines


def beside_text(loads: Loads, pairs: list[dict], beside: list[dict]) -> list[str]:
    """CPU and rate of this version as shares of the other's."""
    lines = [f"{'beside the other version':<27} {'CPU us':>14} {'share':>8} {'requests/s':>11}"]
    for name in (name for name in loads if name + BESIDE in loads):
        cpu = [statistics.median(load["cpu_us"] for load in loads[each])
               for each in (name, name + BESIDE)]
        shares = [share(loads, name, figure) for figure in ("cpu_us", "per_s")]
        lines.append(f"{name:<27} {cpu[0]:>6.1f} : {cpu[1]:<5.1f} {shares[0]:>8.3f} "
                     f"{shares[1]:>11.3f}")
    for pair, other in zip(pairs, beside):
        name = f"store, {pair['in_flight']} in flight"
        cpu = [each["cpu_us_per_pair"] for each in (pair, other)]
        lines.append(f"{name:<27} {cpu[0]:>6.1f} : {cpu[1]:<5.1f} {cpu[0] / cpu[1]:>8.3f} "
                     f"{pair['pairs_per_s'] / other['pairs_per_s']:>11.3f}")
    return lines


def profile_text(tops: dict[str, list[str]]) -> list[str]:
    lines = []
    for name, top in tops.items():
        lines += ["", f"profile of pawl, {name}: share of its CPU by thread, library, function",
                  *top]
    return lines or ["", "no profile: perf is absent or may not look"]


def text_of(loads: Loads, pairs: list[dict], beside: list[dict], options: Any) -> list[str]:
    lines = [f"{CONNECTIONS} connections, medians of {options.rounds} rounds of "
             f"{options.seconds} s, "
             f"{os.cpu_count()} cores, {pairs[0]['records']} records present",
             *rows_text(loads), "", *floor_text(loads), "", *promises_text(list(loads)), "",
             *threads_text(loads), "", *store_text(pairs), ""]
    if beside:
        lines += [*beside_text(loads, pairs, beside), ""]
    lines.append(f"{'aims':<48} {'measured':>9}")
    return lines + [aim.text() for aim in aims_of(loads, pairs, beside)]
