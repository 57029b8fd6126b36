"""The report of a study: tables with mean and standard deviation, compared with the paper's and the expected order.

It is a list of blocks, which are rendered as Markdown here and as a web page by the command line.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import isnan
from statistics import mean, stdev
from textwrap import fill

from chimera_lab.studies.results import MAJORITY, TEST, RowResult
from chimera_lab.studies.study import Row, Section, Study

Results = Mapping[str, RowResult]

_LEAD = (
    "The lead of the first row over another is the difference of their means; it counts if it exceeds two standard "
    "deviations of the difference of two seeds, 2√(s₁² + s₂²)."
)
#: Metrics that are not fractions.
_PLAIN = ("loss", "perplexity", "mae", "log10_mse")


@dataclass(frozen=True)
class Heading:
    """A heading."""

    text: str

    def __str__(self) -> str:
        return f"## {self.text}"


@dataclass(frozen=True)
class Words:
    """A paragraph; names of commands and recipes are in backquotes."""

    text: str

    def __str__(self) -> str:
        return fill(self.text, 120, break_long_words=False, break_on_hyphens=False)


@dataclass(frozen=True)
class Cells:
    """A table."""

    head: list[str]
    rows: list[list[str]]

    def __str__(self) -> str:
        lines = [self.head, ["---"] * len(self.head), *self.rows]
        return "\n".join(f"| {' | '.join(line)} |" for line in lines)


Block = Heading | Words | Cells


def markdown(blocks: list[Block]) -> str:
    """Blocks as Markdown."""
    return "\n\n".join(map(str, blocks)) + "\n"


def report(study: Study, results: Results, command: str, then: Mapping[str, Results] | None = None) -> list[Block]:
    """The report of a study, and of those that come `then`."""
    equal = " Every row has the same number of parameters within 3 %." if study.matched else ""
    how = "which can be interrupted and resumed"
    blocks: list[Block] = [Words(study.doc), Words(f"Measured by `{command}`, {how}. {_method(study)}{equal} {_LEAD}")]
    blocks += _sections(study, results)
    for name, found in (then or {}).items():
        part = study.then[name]
        blocks += [*_sections(part, found), Words(f"{part.doc} {_method(part)}")]
    if then and len(then) > 1:
        blocks += _average({name: (study.then[name], found) for name, found in then.items()})
    return blocks


def _method(study: Study) -> str:
    """A description of how all rows are trained, and of the metrics."""
    names = "train_limit", "epochs", "steps", "batch_size"
    budget = {name: value for name in names if (value := getattr(study.recipe, name))}
    rates = ", ".join(f"{lr:g}" for lr in study.learning_rates)
    tuned = (
        f"Every row has the same sweep of the learning rate ({rates}{', with ' if study.sweep else ''}"
        f"{_words(study.sweep)}; {study.validation:.0%} of the training data held out for it)"
        if rates
        else "Every row has the learning rate of its recipe"
    )
    chosen = " Each run keeps the weights that were best on validation data." if study.test else ""
    return (
        f"Recipe `{study.recipe_name}` with {_words(budget)}. {tuned} and {study.seeds} "
        f"seed{'s' if study.seeds > 1 else ''}; no choice uses the test data.{chosen} Results are "
        f"{' and '.join(map(_unit, study.metrics))}: mean ± standard deviation over seeds."
    )


def _words(settings: Mapping[str, object]) -> str:
    return ", ".join(f"{name} {value}" for name, value in settings.items())


def _unit(metric: str) -> str:
    averaged = " of averaged weights" if metric.endswith("_ema") else ""
    name = metric.removesuffix("_ema")
    return f"{name}{averaged}" if name in _PLAIN else f"{name}{averaged} in per cent"


def _scale(metric: str) -> tuple[int, int]:
    """Factor and number of digits of a metric."""
    return (1, 3) if metric.removesuffix("_ema") in _PLAIN else (100, 2)


def _number(figure: float, metric: str, sign: str = "") -> str:
    scale, digits = _scale(metric)
    return f"{scale * figure:{sign}.{digits}f}"


def spread(figures: list[float], metric: str) -> str:
    """Mean ± standard deviation of the defined values; fractions in per cent."""
    defined = known(figures)
    if not defined:
        return "–"
    words = _number(mean(defined), metric) + (f" ± {_number(stdev(defined), metric)}" if len(defined) > 1 else "")
    return words if len(defined) == len(figures) else f"{words} ({len(defined)} of {len(figures)} seeds)"


def known(figures: list[float]) -> list[float]:
    """The defined values, without those of diverged seeds."""
    return [figure for figure in figures if not isnan(figure)]


def _sections(study: Study, results: Results) -> list[Block]:
    blocks: list[Block] = []
    for section in study.shown:
        blocks += [Heading(section.title), _table(study, section, results)]
        sentences = _expected(study, section, results), _beside_the_paper(study, section, results), section.note
        blocks += [Words(sentence) for sentence in sentences if sentence]
    return blocks


def _table(study: Study, section: Section, results: Results) -> Cells:
    columns = [(title, metric) for title in (TEST, *section.evaluations) for metric in study.metrics]
    titles = [title if len(study.metrics) == 1 else f"{title}, {metric}" for title, metric in columns]
    has_paper = any(row.paper for row in section.rows)
    paper = ["paper", "difference from the paper", "lead in the paper"] if has_paper else []
    if not study.is_papers_task and paper:
        del paper[1]
    head = ["model", *titles, "lead of the first row", "two standard deviations", *paper, "parameters", "learning rate"]
    rows = []
    for row in section.rows:
        same = study.same(row)
        r = None if same is None else results[same.name]
        figures = ["" if r is None else spread(r.figures[title][metric], metric) for title, metric in columns]
        lead = _lead_cells(study, section, row, results)
        beside = _paper_cells(study, section, row, results) if has_paper else []
        size = [f"{r.parameters:,}", f"{r.lr:g}"] if r else ["", ""]
        name = f"{row.name}{_diverged(study, r)}" if r else f"{row.name} (paper only)"
        rows.append([name, *figures, *lead, *beside, *size])
    if study.majority:
        guessed = [spread(results[MAJORITY].figures[TEST][metric], metric) for metric in study.metrics]
        rows.append([MAJORITY, *guessed, *[""] * (len(head) - 1 - len(guessed))])
    return Cells(head, rows)


def _diverged(study: Study, result: RowResult) -> str:
    """A remark on a row with diverged seeds."""
    if not result.diverged:
        return ""
    return " (diverged)" if result.diverged == study.seeds else f" ({result.diverged} of {study.seeds} seeds diverged)"


def _found(study: Study, row: Row, results: Results) -> list[float] | None:
    """The decisive metric of a trained row, without diverged seeds."""
    same = study.same(row)
    return None if same is None else known(results[same.name].figures[TEST][study.metric])


def _lead_cells(study: Study, section: Section, row: Row, results: Results) -> list[str]:
    """The lead of the first row over this one, and two standard deviations of it."""
    first, other = _found(study, section.rows[0], results), _found(study, row, results)
    if row is section.rows[0] or not first or not other:
        return ["", ""]
    lead, deviation = _lead(study, first, other)
    several = min(len(first), len(other)) > 1
    return [_number(lead, study.metric, "+"), _number(2 * deviation, study.metric) if several else ""]


def _lead(study: Study, first: list[float], other: list[float]) -> tuple[float, float]:
    """By how much a row is better than another, and the standard deviation of the difference of two seeds."""
    sign = 1 if study.larger_is_better else -1
    variances = [stdev(figures) ** 2 if len(figures) > 1 else 0.0 for figures in (first, other)]
    return sign * (mean(first) - mean(other)), sum(variances) ** 0.5


def _paper_cells(study: Study, section: Section, row: Row, results: Results) -> list[str]:
    """The paper's values, our difference from them where the task is the paper's, and the first row's lead there."""
    metrics = [metric for metric in study.metrics if metric in row.paper]
    cells = [", ".join(_number(row.paper[metric], metric) for metric in metrics)]
    if study.is_papers_task:
        same = study.same(row)
        ours = None if same is None else results[same.name].figures[TEST]
        found = {metric: known(ours[metric]) for metric in metrics} if ours else {}
        cells.append(", ".join(_number(mean(f) - row.paper[metric], metric, "+") for metric, f in found.items() if f))
    first, metric = section.rows[0], study.metric
    if row is first or metric not in row.paper or metric not in first.paper:
        return [*cells, ""]
    sign = 1 if study.larger_is_better else -1
    return [*cells, _number(sign * (first.paper[metric] - row.paper[metric]), metric, "+")]


def _beside_the_paper(study: Study, section: Section, results: Results) -> str:
    """The paper's order of the trained rows, and ours."""
    figures = {row.name: _found(study, row, results) for row in section.rows if study.metric in row.paper}
    ours = {name: mean(found) for name, found in figures.items() if found}
    if len(ours) < 2:
        return ""
    theirs = {row.name: row.paper[study.metric] for row in section.rows if row.name in ours}
    orders = [sorted(ours, key=by.__getitem__, reverse=study.larger_is_better) for by in (theirs, ours)]
    pairs = [(a, b) for k, a in enumerate(orders[0]) for b in orders[0][k + 1 :] if theirs[a] != theirs[b]]
    kept = sum(ours[a] > ours[b] if study.larger_is_better else ours[a] < ours[b] for a, b in pairs)
    metric = study.metric.replace("_ema", " of averaged weights")
    return (
        f"By {metric}, the better first, the paper has {', '.join(orders[0])}; here {', '.join(orders[1])}: {kept} of "
        f"{len(pairs)} pairs are in the paper's order, counting differences of any size."
    )


def _expected(study: Study, section: Section, results: Results) -> str:
    """Whether the expected order holds, pair by pair: beyond two standard deviations of the difference of two seeds."""
    by_name = {row.name: _found(study, row, results) for row in section.rows}
    words = []
    for better, worse in section.pairs():
        a, b = by_name[better], by_name[worse]
        if not a or not b:
            continue
        lead, deviation = _lead(study, a, b)
        verdict = "holds" if lead > 2 * deviation else "is reversed" if lead < -2 * deviation else "is not decided"
        if min(len(a), len(b)) == 1:
            verdict = "cannot be decided with one seed"
        figures = f"{_number(lead, study.metric, '+')}, two standard deviations {_number(2 * deviation, study.metric)}"
        words.append(f"{better} > {worse} {verdict} ({figures})")
    return f"Expected order, the better first: {'; '.join(words)}." if words else ""


def _average(parts: Mapping[str, tuple[Study, Results]]) -> list[Block]:
    """The decisive metric averaged over several studies with the same rows."""
    (study, _), *_ = parts.values()
    rows = []
    for row in study.sections[0].rows:
        figures = [
            results[same.name].figures[TEST][part.metric]
            for part, results in parts.values()
            if (same := part.same(row)) is not None
        ]
        theirs = [
            r.paper.get(part.metric) for part, _ in parts.values() for r in part.sections[0].rows if r.name == row.name
        ]
        paper = _number(mean(f for f in theirs if f is not None), "") if all(theirs) else ""
        ours = [mean(seed) for seed in zip(*figures, strict=True)]
        rows.append([row.name, spread(ours, "") if ours else "", paper])
    return [
        Heading(f"Average of {len(parts)} tasks"),
        Cells(["model", ", ".join(parts), "paper, of the same tasks"], rows),
    ]
