"""The report of a study: tables with mean and standard deviation, compared with the paper's and the expected order.

It is a list of blocks, which are rendered as Markdown here and as a web page by the command line.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import isnan
from statistics import mean, stdev

from chimera_lab.studies.results import MAJORITY, TEST, RowResult
from chimera_lab.studies.study import Row, Section, Study

Results = Mapping[str, RowResult]

#: Metrics that are not fractions.
_PLAIN = ("loss", "perplexity", "mae")


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
        return self.text


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
    how = "which can be interrupted and goes on where it was"
    blocks: list[Block] = [Words(study.doc), Words(f"Measured by `{command}`, {how}. {_method(study)}{equal}")]
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
    chosen = " Of each run those weights are taken that were best on validation data." if study.test else ""
    return (
        f"Recipe `{study.recipe_name}` with {_words(budget)}. {tuned} and {study.seeds} "
        f"seed{'s' if study.seeds > 1 else ''}; the test data choose nothing.{chosen} Figures are "
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
    paper = ["paper", "difference", "first ahead by (paper)"] if any(row.paper for row in section.rows) else []
    head = ["model", *titles, *paper, "parameters", "lr", "seconds"]
    rows = []
    for row in section.rows:
        same = study.same(row)
        r = None if same is None else results[same.name]
        figures = ["" if r is None else spread(r.figures[title][metric], metric) for title, metric in columns]
        size = [f"{r.parameters:,}", f"{r.lr:g}", f"{r.seconds:.0f}"] if r else ["", "", ""]
        name = f"{row.name}{_diverged(study, r)}" if r else f"{row.name} (paper only)"
        rows.append([name, *figures, *(_paper_cells(study, section, row, results) if paper else []), *size])
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


def _paper_cells(study: Study, section: Section, row: Row, results: Results) -> list[str]:
    """The paper's values, our difference from them, and the lead of the first row, here and in the paper."""
    metrics = [metric for metric in study.metrics if metric in row.paper]
    figures = ", ".join(_number(row.paper[metric], metric) for metric in metrics)
    same, first = study.same(row), section.rows[0]
    ours = None if same is None else results[same.name].figures[TEST]
    differences = [_number(mean(found) - row.paper[m], m, "+") for m in metrics if ours and (found := known(ours[m]))]
    if row is first:
        return [figures, ", ".join(differences), ""]
    sign, metric = 1 if study.larger_is_better else -1, study.metric
    ahead, a, b = "", _found(study, first, results), _found(study, row, results)
    if a and b:
        ahead = _number(sign * (mean(a) - mean(b)), metric, "+")
    if metric in row.paper and metric in first.paper:
        ahead += f" ({_number(sign * (first.paper[metric] - row.paper[metric]), metric, '+')})"
    return [figures, ", ".join(differences), ahead.strip()]


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
    return (
        f"By {study.metric}, the better first, the paper has {', '.join(orders[0])}; here {', '.join(orders[1])}: "
        f"{kept} of {len(pairs)} pairs in the paper's order, whether or not beyond chance."
    )


def _expected(study: Study, section: Section, results: Results) -> str:
    """Whether the expected order holds, pair by pair: beyond two standard deviations of the difference of two seeds."""
    by_name = {row.name: _found(study, row, results) for row in section.rows}
    sign, words = 1 if study.larger_is_better else -1, []
    for better, worse in section.pairs():
        a, b = by_name[better], by_name[worse]
        if not a or not b:
            continue
        difference, error = sign * (mean(a) - mean(b)), (_variance(a) + _variance(b)) ** 0.5
        verdict = "holds" if difference > 2 * error else "is reversed" if difference < -2 * error else "is not decided"
        if min(len(a), len(b)) == 1:
            verdict = "cannot be decided with one seed"
        figures = f"{_number(difference, study.metric, '+')}, two standard deviations "
        words.append(f"{better} > {worse} {verdict} ({figures}{_number(2 * error, study.metric)})")
    return f"Expected order, the better first: {'; '.join(words)}." if words else ""


def _variance(figures: list[float]) -> float:
    return stdev(figures) ** 2 if len(figures) > 1 else 0.0


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
