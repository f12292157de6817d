from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowFailException, ParamValidationError

from operators.params import TrainingParams, refuse_unknown


def test_every_parameter_has_a_title_a_description_and_a_type_in_the_form() -> None:
    for name, param in TrainingParams.as_airflow().items():
        assert param.schema["title"], name
        assert param.schema["type"], name
        assert param.description, name


def test_the_form_s_defaults_are_those_of_the_model() -> None:
    defaults = {name: param.resolve() for name, param in TrainingParams.as_airflow().items()}
    assert TrainingParams.read(defaults) == TrainingParams()


@pytest.mark.parametrize(
    ("name", "value"),
    [("workers", 0), ("epochs", "many"), ("margin", -0.1), ("replay_year", 13), ("learning_rate", 0), ("seed", 1.5)],
)
def test_a_bad_value_is_refused_by_the_form_and_by_the_task(name: str, value: Any) -> None:
    with pytest.raises(ParamValidationError):
        TrainingParams.as_airflow()[name].resolve(value)
    with pytest.raises(AirflowFailException, match=f"{name} = {value!r}"):
        TrainingParams.read({name: value})


def test_an_empty_replay_year_means_the_interval_s_own() -> None:
    assert TrainingParams.as_airflow()["replay_year"].resolve(None) is None
    assert TrainingParams.read({"replay_year": None}).replay_year is None


def test_a_name_that_the_dag_has_no_parameter_for_is_refused() -> None:
    with pytest.raises(AirflowFailException, match=r"'epoch'.*has no parameter for.*epochs, seed"):
        refuse_unknown({"epoch": 3}, ["seed", "epochs"], "nightly")


def test_a_batch_that_leaves_a_worker_without_a_sample_is_refused_before_anything_is_built() -> None:
    with pytest.raises(AirflowFailException, match="global_batch_size = 8 leaves some of workers = 9 without"):
        TrainingParams.read({"global_batch_size": 8, "workers": 9})
