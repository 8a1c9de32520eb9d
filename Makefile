# What people run. Python, make and a package index are all it needs; uv is used where it is installed, else pip.
SHELL := /bin/sh
PYTHON ?= python3
PY := .venv/bin/python
BASE := .venv/.installed
DEV := .venv/.installed-dev
FUZZ := .venv/.installed-fuzz

.DEFAULT_GOAL := help
.PHONY: help demo run test test-all soak fuzz check bench lock clean

help: ## this list
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1\t\2/p' Makefile | expand -t 20

demo: $(BASE) ## a simulated fleet with faults that heal while you watch
	@exec $(PY) manage.py up --demo

run: $(BASE) ## the same without the simulator, for real clusters
	@exec $(PY) manage.py up

# Three workers for two cores: some tests wait for a scheduler, a browser or a boot. Bytecode is kept whatever the shell
# says, because each worker imports all tests, and many tests start processes of Muster.
test: $(DEV) ## every test that runs on a bare machine
	@PYTHONDONTWRITEBYTECODE= $(PY) -m pytest -n 3 -m "not slow and not labs" tests

test-all: $(DEV) ## every group that can run here, slow ones too
	@failed=0; PYTHONDONTWRITEBYTECODE= $(PY) -m pytest -n 3 -m "not labs" tests || failed=1; $(PY) -m pytest -m labs tests || failed=1; exit $$failed

soak: $(DEV) ## schedules drawn over the engine, then kill -9 of its processes; CORE=, SCHEDULES=, EFFECTS=, KILLS=, SECONDS=, FOLDER=
	@$(PY) -m tests.labs.schedules --core $(or $(CORE),100000) --postgres $(or $(SCHEDULES),2000) \
		--effects $(or $(EFFECTS),10000) $(if $(SECONDS),--seconds $(SECONDS)) $(if $(FOLDER),--folder $(FOLDER))
	@test "$(KILLS)" = 0 || $(PY) -m tests.labs.kills --kills $(or $(KILLS),50)

fuzz: $(FUZZ) ## hostile input against every parser; SECONDS=N for each, PARSER=one of them
	@$(PY) -m tests.fuzz $(or $(PARSER),all) --seconds $(or $(SECONDS),60)

check: $(DEV) ## style, types, import contracts, architecture, templates, migrations
	@PY=$(PY) sh deploy/check.sh

bench: $(BASE) ## all benchmarks
	@$(PY) manage.py bench all --json -

lock: ## compile requirements*.txt, with hashes, from requirements*.in
	uv pip compile -q --python-version 3.11 --generate-hashes --no-emit-index-url requirements.in -o requirements.txt
	uv pip compile -q --python-version 3.11 --generate-hashes --no-emit-index-url requirements-dev.in -o requirements-dev.txt
	uv pip compile -q --python-version 3.11 --generate-hashes --no-emit-index-url requirements-fuzz.in -o requirements-fuzz.txt

clean: ## remove the virtual environment and caches; var (the data) stays
	rm -rf .venv .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(PY):
	@PYTHON=$(PYTHON) sh deploy/venv.sh create

$(BASE): requirements.txt | $(PY)
	@sh deploy/venv.sh install requirements.txt
	@touch $@

$(DEV): requirements.txt requirements-dev.txt | $(PY)
	@sh deploy/venv.sh install requirements.txt requirements-dev.txt
	@touch $(BASE) $@

$(FUZZ): requirements-fuzz.txt | $(DEV)
	@sh deploy/venv.sh install requirements-fuzz.txt
	@touch $@
