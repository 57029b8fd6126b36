"""What a study found, as text: tables with mean and deviation, the order found and the order expected."""

from __future__ import annotations

from collections.abc import Mapping
from statistics import mean, stdev

from chimera_ssm.studies.conduct import MAJORITY, TEST, RowResult
from chimera_ssm.studies.study import Section, Study

Results = Mapping[str, RowResult]

#: Metrics that are not parts of one.
_PLAIN = ("loss", "perplexity", "mae")


def markdown(study: Study, results: Results, command: str, then: Mapping[str, Results] | None = None) -> str:
    """The report of a study, and of those that come `then`."""
    lines = [
        study.doc,
        "",
        f"Measured by `{command}`, which can be interrupted and goes on where it was. {_method(study)} Every row has "
        f"the same number of parameters within 3 %.",
        *_sections(study, results),
    ]
    for name, found in (then or {}).items():
        part = study.then[name]
        lines += [*_sections(part, found), "", f"{part.doc} {_method(part)}"]
    return "\n".join(lines) + "\n"


def _method(study: Study) -> str:
    """How the rows are trained, the same for all, and what the figures are."""
    names = "train_limit", "epochs", "steps", "batch_size"
    budget = {name: value for name in names if (value := getattr(study.recipe, name))}
    rates = ", ".join(f"{lr:g}" for lr in study.learning_rates)
    return (
        f"Recipe `{study.recipe_name}` with {_words(budget)}. Every row has the same sweep of the learning rate "
        f"({rates}{', with ' if study.sweep else ''}{_words(study.sweep)}; {study.validation:.0%} of the training data "
        f"held out for it) and {study.seeds} seeds; the test data choose nothing. Figures are "
        f"{' and '.join(map(_unit, study.metrics))}{', of averaged weights' if study.recipe.ema else ''}: mean ± "
        f"standard deviation over seeds."
    )


def _words(settings: Mapping[str, object]) -> str:
    return ", ".join(f"{name} {value}" for name, value in settings.items())


def _unit(metric: str) -> str:
    return metric if metric in _PLAIN else f"{metric} in per cent"


def spread(figures: list[float], metric: str) -> str:
    """Mean ± standard deviation; parts of one in per cent."""
    scale, digits = (1, 3) if metric in _PLAIN else (100, 2)
    middle = f"{scale * mean(figures):.{digits}f}"
    return f"{middle} ± {scale * stdev(figures):.{digits}f}" if len(figures) > 1 else middle


def _sections(study: Study, results: Results) -> list[str]:
    lines = []
    for section in study.sections:
        lines += ["", f"## {section.title}", "", *_table(study, section, results), *_order(study, section, results)]
        lines += ["", section.note] if section.note else []
    return lines


def _table(study: Study, section: Section, results: Results) -> list[str]:
    paper = any(row.paper for row in section.rows)
    columns = [(title, metric) for title in (TEST, *section.evaluations) for metric in study.metrics]
    titles = [title if len(study.metrics) == 1 else f"{title}, {metric}" for title, metric in columns]
    head = ["model", *titles, *(["paper"] if paper else []), "parameters", "lr", "seconds"]
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    for row in section.rows:
        r = results[study.same(row).name]
        cells = [row.name, *(spread(r.figures[title][metric], metric) for title, metric in columns)]
        cells += [row.paper] if paper else []
        cells += [f"{r.parameters:,}", f"{r.lr:g}", f"{r.seconds:.0f}"]
        lines.append("| " + " | ".join(cells) + " |")
    if study.majority:
        guessed = [spread(results[MAJORITY].figures[TEST][metric], metric) for metric in study.metrics]
        cells = [MAJORITY, *guessed, *[""] * (len(head) - 1 - len(guessed))]
        lines.append("| " + " | ".join(cells) + " |")
    return lines


def _order(study: Study, section: Section, results: Results) -> list[str]:
    """Whether the expected order holds, pair by pair; a difference counts beyond two standard errors or deviations."""
    by_name = {row.name: results[study.same(row).name].figures[TEST][study.metric] for row in section.rows}
    sign, scale = 1 if study.larger_is_better else -1, 1 if study.metric in _PLAIN else 100
    words = []
    for better, worse in section.pairs():
        a, b = by_name[better], by_name[worse]
        difference, error = sign * (mean(a) - mean(b)), (_variance(study, a) + _variance(study, b)) ** 0.5
        verdict = "holds" if difference > 2 * error else "is reversed" if difference < -2 * error else "is not decided"
        figures = f"{scale * difference:+.2f}, two standard {study.standard} {2 * scale * error:.2f}"
        words.append(f"{better} > {worse} {verdict} ({figures})")
    return ["", f"Expected order, the better first: {'; '.join(words)}."] if words else []


def _variance(study: Study, figures: list[float]) -> float:
    """Of the mean, or of a seed."""
    count = len(figures) if study.standard == "errors" else 1
    return stdev(figures) ** 2 / count if len(figures) > 1 else 0.0
