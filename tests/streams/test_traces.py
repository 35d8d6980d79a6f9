"""The reader of recorded workloads, and the slice that is committed."""

from pathlib import Path

import pytest

from streams.traces import TraceNode, TraceTask, UnreadableTrace, compress, load_openb, load_tasks

SLICE = Path(__file__).parents[1] / "fixtures" / "openb"
HEADER = (
    "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_time,scheduled_time\n"
)


def written(tmp_path: Path, *lines: str, header: str = HEADER) -> Path:
    path = tmp_path / "pods.csv"
    path.write_text(header + "".join(f"{line}\n" for line in lines))
    return path


def test_the_slice_holds_700_tasks_in_order_and_every_task_fits_on_a_machine():
    tasks, nodes = load_openb(SLICE / "pods.csv", SLICE / "nodes.csv")
    assert len(tasks) == 700
    assert len(nodes) == 4
    assert tasks[0].arrival_us == 0
    assert [task.arrival_us for task in tasks] == sorted(task.arrival_us for task in tasks)
    assert all(any(node.could_run(task) for node in nodes) for task in tasks)
    assert len({task.name for task in tasks}) == 700


def test_gpus_become_one_pool_of_a_thousandth_each(tmp_path):
    (task,) = load_tasks(written(tmp_path, "t,88000,327680,8,1000,,LS,Running,5,9,5"))
    assert task == TraceTask("t", 0, 4_000_000, 88_000, 327_680 * 1024, 8_000, (), "LS")
    assert task.requirements() == (("cpu_millis", "88000"), ("gpu_milli", "8000"), ("memory_kib", str(327_680 * 1024)))


def test_a_task_without_gpus_asks_for_none_whatever_its_gpu_milli_says(tmp_path):
    (task,) = load_tasks(written(tmp_path, "t,1000,1,0,1000,,LS,Running,5,9,5"))
    assert dict(task.requirements()).keys() == {"cpu_millis", "memory_kib"}


def test_a_machine_without_gpus_does_not_declare_them():
    assert TraceNode("n", 1000, 2048).properties() == (("cpu_millis", "1000"), ("memory_kib", "2048"))
    assert ("gpu_model", "T4") in TraceNode("n", 1000, 2048, 2000, "T4").properties()


def test_one_model_is_a_requirement_and_a_choice_of_models_is_not(tmp_path):
    one, two = load_tasks(written(tmp_path, "a,1,1,1,500,T4,LS,Running,5,9,5", "b,1,1,1,500,T4|P100,LS,Running,6,9,5"))
    assert ("gpu_model", "T4") in one.requirements()
    assert two.gpu_models == ("T4", "P100")
    assert "gpu_model" not in dict(two.requirements())


def test_compressing_keeps_the_ratio_of_durations_to_arrivals():
    tasks = [TraceTask("a", 0, 10_000_000, 1, 1), TraceTask("b", 100_000_000, 1_000, 1, 1)]
    first, second = compress(tasks, 1_000_000)
    assert (first.arrival_us, first.duration_us) == (0, 100_000)
    assert (second.arrival_us, second.duration_us) == (1_000_000, 1_000)
    with pytest.raises(ValueError, match="positive, not 0 us"):
        compress(tasks, 0)


@pytest.mark.parametrize(
    ("line", "column", "rule"),
    [
        ("t,1.5,1,0,0,,LS,Running,5,9,5", "cpu_milli", "whole number"),
        ("t,1,1,0,0,,LS,Running,9,5,5", "deletion_time", "before creation_time 9"),
        ("t,1,1,0,0,,LS,Running,5,,5", "deletion_time", "whole number"),
        ("t,1,1", "num_gpu", "ends before this column"),
    ],
)
def test_a_wrong_value_is_named_by_line_and_column(tmp_path, line, column, rule):
    with pytest.raises(UnreadableTrace) as caught:
        load_tasks(written(tmp_path, "ok,1,1,0,0,,LS,Running,5,9,5", line))
    assert (caught.value.line, caught.value.column) == (3, column)
    assert rule in caught.value.rule


def test_a_missing_column_file_or_task_is_said(tmp_path):
    with pytest.raises(UnreadableTrace, match=r"column 'gpu_spec'.*is missing"):
        load_tasks(written(tmp_path, "t,1,1,0,0", header="name,cpu_milli,memory_mib,num_gpu,gpu_milli\n"))
    with pytest.raises(UnreadableTrace, match="cannot be read"):
        load_tasks(tmp_path / "absent.csv")
    with pytest.raises(UnreadableTrace, match="holds no task"):
        load_tasks(written(tmp_path))
