"""The files around the package agree: workflow and Makefile, versions, addresses, pages for contributors."""

import re
import tomllib

import pytest
import yaml
from paths import ROOT

HOME = "https://github.com/anchortm/anchortm"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
WORKFLOW = yaml.safe_load((ROOT / ".github" / "workflows" / "tests.yml").read_text())
JOBS = WORKFLOW["jobs"]
PAGES = ["CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md", "tests/README.md", ".github/pull_request_template.md"]


def targets() -> set[str]:
    """Return the targets of the Makefile that are not files."""
    return set(re.search(r"^\.PHONY: (.*)$", (ROOT / "Makefile").read_text(), re.M)[1].split())


def pythons(job: str) -> list[str]:
    """Return the versions of Python with which a job runs."""
    (setup,) = (step["with"] for step in JOBS[job]["steps"] if step.get("uses", "").startswith("actions/setup-python@"))
    assert setup["cache"] == "pip"
    version = setup["python-version"]
    return JOBS[job]["strategy"]["matrix"]["python"] if version == "${{ matrix.python }}" else [version]


def test_the_workflow_runs_targets_of_the_makefile() -> None:
    runs = {name: [step["run"] for step in job["steps"] if "run" in step] for name, job in JOBS.items()}
    assert runs == {
        "lint": ["make lint"],
        "test": ["make browser", "make test"],
        "docs": ["make docs", "make browser", "make docs-screens"],
        "lowest": ["make test-lowest"],
    }
    assert {line.removeprefix("make ") for lines in runs.values() for line in lines} <= targets()


def test_the_makefile_has_every_target_it_names() -> None:
    text = (ROOT / "Makefile").read_text()
    rules = set(re.findall(r"^([a-z-]+):", text, re.M))
    assert targets() == rules
    assert set(re.findall(r'^\t@echo "make ([a-z-]+) ', text, re.M)) == rules - {"help", "format", "clean"}


def test_the_workflow_has_every_python_of_the_metadata() -> None:
    stated = [re.fullmatch(r"Programming Language :: Python :: (3\.\d+)", text) for text in PROJECT["classifiers"]]
    versions = [match[1] for match in stated if match]
    assert pythons("test") == versions
    assert PROJECT["requires-python"] == f">={versions[0]}"
    assert pythons("lowest") == versions[:1]
    assert {version for job in JOBS for version in pythons(job)} <= set(versions)


def test_the_workflow_may_read_only_and_older_runs_are_cancelled() -> None:
    assert WORKFLOW["permissions"] == {"contents": "read"}
    assert not any("permissions" in job for job in JOBS.values())
    assert WORKFLOW["concurrency"]["cancel-in-progress"] is True
    used = [step["uses"] for job in JOBS.values() for step in job["steps"] if "uses" in step]
    assert all(re.fullmatch(r"actions/[a-z-]+@v\d+", name) for name in used)


def test_addresses_are_stated_and_the_same_everywhere() -> None:
    urls = PROJECT["urls"]
    assert list(urls) == ["Homepage", "Documentation", "Source", "Issues", "Changelog"]
    assert all(url == HOME or url.startswith(f"{HOME}/") for url in urls.values())
    for label in ("Documentation", "Changelog"):
        assert (ROOT / urls[label].partition("/main/")[2]).exists()
    for file in ("README.md", "CITATION.cff", "SECURITY.md", "docs/conf.py", ".github/ISSUE_TEMPLATE/config.yml"):
        assert HOME in (ROOT / file).read_text(), file


def test_the_changelog_is_by_version() -> None:
    headings = re.findall(r"^## (.*)$", (ROOT / "CHANGELOG.md").read_text(), re.M)
    assert headings[0] == "[Unreleased]"
    assert all(re.fullmatch(r"\[\d+\.\d+\.\d+\] - \d{4}-\d\d-\d\d", heading) for heading in headings[1:])
    groups = set(re.findall(r"^### (.*)$", (ROOT / "CHANGELOG.md").read_text(), re.M))
    assert groups <= {"Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"}


@pytest.mark.parametrize("name", PAGES)
def test_links_and_targets_on_pages_for_contributors_are_there(name: str) -> None:
    page = ROOT / name
    for target in re.findall(r"\]\(([^)#\s]+)", page.read_text()):
        assert re.match(r"https?:", target) or (page.parent / target).exists(), f"{name} links to {target}"
    assert set(re.findall(r"`make ([a-z-]+)", page.read_text())) <= targets()
