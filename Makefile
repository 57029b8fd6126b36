# make test, make test-fast, make test-gpu, make fuzz, make mutations, make demo, make lint and make docs each create
# .venv as needed; nothing but Python is assumed.
PYTHON ?= python3
BIN := .venv/bin
READY := .venv/.ready

FUZZ ?= --cases 10000 --threads 1,2

# Tests of Triton kernels, in Triton's interpreter.
GPU_TESTS := tests/chimera_ssm/gpu $(wildcard tests/chimera_ssm/ops/*/test_triton*.py)

.PHONY: demo test test-fast test-gpu fuzz mutations lint docs clean

demo: $(READY)
	$(BIN)/chimera demo

test: $(READY) test-gpu
	$(BIN)/python -m pytest -n 2

test-fast: $(READY)
	$(BIN)/python -m pytest -n 2 -m "not slow" tests/chimera_ssm tests/test_layering.py

test-gpu: $(READY)
	TRITON_INTERPRET=1 $(BIN)/python -m pytest -n 2 $(GPU_TESTS)

fuzz: $(READY)
	OPENBLAS_NUM_THREADS=1 $(BIN)/python -m tests.fuzz $(FUZZ)

mutations: $(READY)
	$(BIN)/python -m tests.chimera_lab.data.mutations --cases 2000

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/ty check

docs: $(READY)
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet
	@echo "the site: build/site/index.html"

$(READY): pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[all]"
	touch $@

clean:
	rm -rf .venv build dist .pytest_cache .ruff_cache .hypothesis
