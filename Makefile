# Every target sets up .venv by itself when it is missing or out of date, and needs no network afterwards.
# PYTHON=/path/to/python3.12 chooses the Python that .venv is made with.

VENV := .venv/bin
LESSONS ?= $(wildcard lessons/*.ipynb)
export PYTHON

.PHONY: help lab demo test check bench lessons lab-environment dev-environment

help:
	@echo "make demo      train the digits on a simulated cluster, kill a worker, write demo/report.html"
	@echo "make lab       open the lessons in JupyterLab (LAB_FLAGS=... for its own options)"
	@echo "make test      every check and test, as CI runs them"
	@echo "make check     the quick part of it: format, lint, spelling, types, layers, words"
	@echo "make bench     the benchmarks, as a table (BENCH_FLAGS=... for its options)"
	@echo "make lessons   run the lessons and store their outputs (LESSONS=lessons/01*.ipynb for one)"

lab-environment:
	@sh .ci/setup lab

dev-environment:
	@sh .ci/setup dev

demo: lab-environment
	@$(VENV)/python -m simdist run examples/digits_ps.py

lab: lab-environment
	@$(VENV)/python -m simdist lessons $(LAB_FLAGS)

test: dev-environment
	@$(VENV)/python .ci/stages.py test

check: dev-environment
	@$(VENV)/python .ci/stages.py check

bench: lab-environment
	@$(VENV)/python -m simdist bench $(BENCH_FLAGS)

lessons: dev-environment
	@$(VENV)/python lessons/store_outputs.py $(LESSONS)
