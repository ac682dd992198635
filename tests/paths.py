"""Where the parts of the project are, for tests."""

from pathlib import Path

TESTS = Path(__file__).resolve().parent
ROOT = TESTS.parent
DOCS = ROOT / "docs"
GALLERY = ROOT / "examples" / "gallery"
REFERENCE = TESTS / "reference"
SAVED = TESTS / "saved"
