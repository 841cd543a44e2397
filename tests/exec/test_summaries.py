"""`context_policy.compaction.summarization_model`: another model for the summaries."""

from strands_cli.capability import check_capability
from strands_cli.events import ModelFinished
from strands_cli.providers.choice import with_model_options
from tests.exec.flows import Flow, steps
from tests.projects import Project

MAIN_SCRIPT = """
- {{call: echo, with: {{message: {text}}}}}
- {{call: echo, with: {{message: {text}}}}}
- done
"""


def test_a_summary_is_written_by_the_model_that_the_policy_names(inside: Project) -> None:
    inside.write("main.yaml", MAIN_SCRIPT.format(text="a" * 6000))
    inside.write("short.yaml", "answers: [the summary]\n")
    policy = {"when_tokens_over": 1000, "preserve_recent_messages": 2, "summarization_model": "short.yaml"}
    flow = Flow(inside.root)
    runtime = {"provider": "scripted", "model_id": "main.yaml"}
    more = {"tools": {"python": ["echo"]}, "runtime": runtime}
    spec = flow.spec("chain", {"steps": steps("go")}, context_policy={"compaction": policy}, **more)
    assert flow.run_spec(spec).last_response == "done"
    asked = [event.model for event in flow.heard(ModelFinished)]
    assert asked == ["scripted main.yaml"] * 2 + ["scripted short.yaml", "scripted main.yaml"]
    missing = {**policy, "summarization_model": "gone.yaml"}
    spec = flow.spec("chain", {"steps": steps("go")}, context_policy={"compaction": missing}, **more)
    assert "gone.yaml" in str(check_capability(spec).errors)
    other = with_model_options(spec, model="main.yaml")
    assert check_capability(other).errors == ()


def test_the_price_of_the_summarising_model_must_be_known_for_a_budget_of_money(inside: Project) -> None:
    spec = Flow(inside.root).spec(
        "chain",
        {"steps": steps("go")},
        runtime={"provider": "openai", "model_id": "gpt-x", "budgets": {"max_cost": 1}},
        context_policy={"compaction": {"summarization_model": "gpt-y"}},
    )
    found = [issue.reason for issue in check_capability(spec).errors]
    assert [reason.split()[3] for reason in found] == ["gpt-x", "gpt-y"]
