"""What a study found, as text: tables with mean and deviation, the order found and the order expected."""

from __future__ import annotations

from collections.abc import Mapping
from statistics import mean, stdev

from chimera_ssm.studies.conduct import RowResult
from chimera_ssm.studies.study import Section, Study


def markdown(study: Study, results: Mapping[str, RowResult], command: str) -> str:
    """The report of a study."""
    budget = ", ".join(
        f"{name} {value}" for name in ("train_limit", "epochs", "steps", "batch_size") if (value := _of(study, name))
    )
    lines = [
        study.doc,
        "",
        f"Measured by `{command}`, which can be interrupted and goes on where it was. Recipe `{study.recipe_name}` "
        f"with {budget}. Every row has the same number of parameters within 3 %, the same sweep of the learning rate "
        f"({', '.join(f'{lr:g}' for lr in study.learning_rates)}{_sweep(study)}; {study.validation:.0%} of the "
        f"training data held out for it) and "
        f"{study.seeds} seeds; the test data are used once, at the end. Figures are {study.metric} in per cent"
        f"{', of averaged weights' if study.recipe.ema else ''}: mean ± standard deviation over seeds.",
    ]
    for section in study.sections:
        lines += ["", f"## {section.title}", "", *_table(study, section, results), *_order(study, section, results)]
    return "\n".join(lines) + "\n"


def _sweep(study: Study) -> str:
    changes = ", ".join(f"{name} {value}" for name, value in study.sweep.items())
    return f", with {changes}" if changes else ""


def _of(study: Study, name: str) -> object:
    return getattr(study.recipe, name)


def spread(figures: list[float]) -> str:
    """Mean ± standard deviation, in per cent."""
    deviation = stdev(figures) if len(figures) > 1 else 0.0
    return f"{100 * mean(figures):.2f} ± {100 * deviation:.2f}"


def _table(study: Study, section: Section, results: Mapping[str, RowResult]) -> list[str]:
    paper = any(row.paper for row in section.rows)
    head = ["model", "test", *section.evaluations, *(["paper"] if paper else []), "parameters", "lr", "seconds"]
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    for row in section.rows:
        r = results[study.same(row).name]
        cells = [row.name, spread(r.figures), *(spread(r.evaluations[title]) for title in section.evaluations)]
        cells += [row.paper] if paper else []
        cells += [f"{r.parameters:,}", f"{r.lr:g}", f"{r.seconds:.0f}"]
        lines.append("| " + " | ".join(cells) + " |")
    return lines


def _order(study: Study, section: Section, results: Mapping[str, RowResult]) -> list[str]:
    """Whether the expected order holds, pair by pair; a difference counts beyond two standard errors."""
    if not section.expected:
        return []
    by_name = {row.name: results[study.same(row).name] for row in section.rows}
    sign = 1 if study.larger_is_better else -1
    words = []
    for better, worse in zip(section.expected, section.expected[1:], strict=False):
        a, b = by_name[better].figures, by_name[worse].figures
        difference = sign * (mean(a) - mean(b))
        error = ((_variance(a) / len(a)) + (_variance(b) / len(b))) ** 0.5
        verdict = "holds" if difference > 2 * error else "is reversed" if difference < -2 * error else "is not decided"
        words.append(f"{better} > {worse} {verdict} ({100 * difference:+.2f}, two standard errors {200 * error:.2f})")
    return ["", f"Expected order: {'; '.join(words)}."]


def _variance(figures: list[float]) -> float:
    return stdev(figures) ** 2 if len(figures) > 1 else 0.0
