from __future__ import annotations

from gang_backends.local_process.traceback_text import last_error

CHAINED = """step 1
Traceback (most recent call last):
  File "a.py", line 1, in <module>
    f()
ValueError: inner

During handling of the above exception, another exception occurred:

Traceback (most recent call last):
  File "a.py", line 3, in <module>
    g()
       ^^
data.MissingDay: 2013-02-08: no weather
[W] destroy_process_group() was not called
"""


def test_last_error_is_found_when_errors_are_chained_and_lines_follow() -> None:
    error = last_error(CHAINED)
    assert error is not None
    assert (error.type, error.message) == ("data.MissingDay", "2013-02-08: no weather")
    assert error.traceback.startswith("Traceback")
    assert "g()" in error.traceback
    assert "inner" not in error.traceback


def test_error_without_a_message_has_an_empty_one() -> None:
    error = last_error('Traceback (most recent call last):\n  File "a", line 1\nKeyboardInterrupt\n')
    assert error is not None
    assert (error.type, error.message) == ("KeyboardInterrupt", "")


def test_there_is_no_error_when_the_text_holds_no_whole_traceback() -> None:
    assert last_error("all is well\n") is None
    assert last_error('Traceback (most recent call last):\n  File "a", line 1\n') is None
