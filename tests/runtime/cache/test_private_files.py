"""What runs is read only from folders and files that nobody but the user can have written."""

from __future__ import annotations

import logging
import os
import socket
import stat
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import pytest
from gpu import nvrtc_or_skip

from convir.api.compile import compile as convir_compile
from convir.lowering.kernels.host.target import target
from convir.runtime.cache import object_cache, private_files, program_cache
from convir.runtime.cache.object_cache import ObjectCache, private_records, user_records
from convir.runtime.cache.private_files import NotPrivateError, check_folder, make_folder
from convir.runtime.cuda.toolchain.compile import compile_cubin
from convir.runtime.host import jit

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

KEY = "ab" + "0" * 62
STRANGER = 12345
SUM = """
func.func @main(%x: tensor<4x8xf32>, %y: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %0 = arith.addf %x, %y : tensor<4x8xf32>
  return %0 : tensor<4x8xf32>
}
"""
ADD = "define i64 @add(i64 %a, i64 %b) {\n  %sum = add i64 %a, %b\n  ret i64 %sum\n}\n"
X = np.arange(32, dtype=np.float32).reshape(4, 8)

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("CONVIR_CACHE_DIR", str(tmp_path / "above" / "cache"))
    monkeypatch.delenv(program_cache.SWITCH_VARIABLE, raising=False)
    monkeypatch.setattr(object_cache, "_told", set[str]())
    return tmp_path / "above" / "cache"


@pytest.fixture
def umask() -> Generator[Callable[[int], None]]:
    before = os.umask(0)
    os.umask(before)
    yield lambda mask: (os.umask(mask), None)[1]
    os.umask(before)


def run() -> None:
    executable: Any = convir_compile(SUM, device="host")
    np.testing.assert_array_equal(executable(X, X), 2 * X)


def files(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def others_write(path: Path) -> None:
    path.chmod(path.stat().st_mode | stat.S_IWOTH)


def group_writes(path: Path) -> None:
    path.chmod(path.stat().st_mode | stat.S_IWGRP)


def shared_like_tmp(path: Path) -> None:
    path.chmod(0o1777)


def of_another(path: Path) -> None:
    os.chown(path, STRANGER, -1)


CHANGES = [
    pytest.param(others_write, "others may write {} (mode 0702): chmod go-w {}"),
    pytest.param(group_writes, "others may write {} (mode 0720): chmod go-w {}"),
    pytest.param(of_another, f"{{}} belongs to user {STRANGER}, not to user 0", marks=needs_root),
]


@pytest.mark.parametrize(("change", "reason"), CHANGES)
@pytest.mark.parametrize("where", ["above", "above/cache", "above/cache/programs"])
def test_folders_that_others_could_have_written_are_not_read(
    tmp_path: Path,
    where: str,
    change: Callable[[Path], None],
    reason: str,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    run()
    folder = tmp_path / where
    change(folder)
    before = files(folder)
    monkeypatch.setattr(private_files, "opened", None)  # nothing may be read below it …
    if where == "above/cache/programs":
        monkeypatch.undo()  # … but the folders beside it
        monkeypatch.setenv("CONVIR_CACHE_DIR", str(tmp_path / "above" / "cache"))
        monkeypatch.delenv(program_cache.SWITCH_VARIABLE, raising=False)
    with caplog.at_level(logging.WARNING):
        for _ in range(2):
            run()
    (told,) = [record.getMessage() for record in caplog.records]
    assert reason.replace("{}", str(folder)) in told
    assert "CONVIR_CACHE_DIR" in told
    assert files(folder) == before


@pytest.mark.parametrize("change", [others_write, pytest.param(of_another, marks=needs_root)])
def test_files_that_others_could_have_written_are_replaced(
    cache: Path, change: Callable[[Path], None], caplog: pytest.LogCaptureFixture
) -> None:
    stored = ObjectCache(cache)
    stored.store(KEY, b"code")
    change(stored.path(KEY))
    with caplog.at_level(logging.WARNING):
        assert stored.load(KEY) is None
        assert stored.load(KEY) is None
    assert len(caplog.records) == 1
    stored.store(KEY, b"code")
    assert stored.load(KEY) == b"code"


def test_everybodys_folder_may_lie_above_the_users_own(tmp_path: Path) -> None:
    shared = tmp_path / "shared"
    shared.mkdir()
    shared_like_tmp(shared)
    stored = ObjectCache(shared / "own")
    stored.store(KEY, b"code")
    assert stored.load(KEY) == b"code"
    with pytest.raises(NotPrivateError, match="others may write"):
        check_folder(shared)


@needs_root
def test_anothers_folder_in_everybodys_is_not_used(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    shared = tmp_path / "shared"
    shared.mkdir()
    shared_like_tmp(shared)
    (shared / "own").mkdir(0o700)
    of_another(shared / "own")
    stored = ObjectCache(shared / "own")
    with caplog.at_level(logging.WARNING):
        stored.store(KEY, b"code")
    assert f"{shared / 'own'} belongs to user {STRANGER}" in caplog.text
    assert files(shared) == {}


def test_links_on_the_way_count_as_what_they_lead_to(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir(0o700)
    (tmp_path / "absolute").symlink_to(tmp_path / "real")
    (tmp_path / "relative").symlink_to("absolute/../real")
    for name in ("absolute", "relative", "relative/../real/./"):
        stored = ObjectCache(tmp_path / name / "own")
        stored.store(KEY, b"code")
        assert stored.load(KEY) == b"code"
    assert len(files(tmp_path)) == 1
    others_write(tmp_path / "real")
    assert stored.load(KEY) is None


@needs_root
def test_links_of_others_are_not_followed(tmp_path: Path) -> None:
    shared = tmp_path / "shared"
    shared.mkdir()
    shared_like_tmp(shared)
    (tmp_path / "real").mkdir(0o700)
    (shared / "link").symlink_to(tmp_path / "real")
    check_folder(shared / "link")
    os.lchown(shared / "link", STRANGER, -1)
    with pytest.raises(NotPrivateError, match=f"belongs to user {STRANGER}"):
        check_folder(shared / "link")


def test_links_in_a_circle_end(tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    with pytest.raises(OSError, match="too many symbolic links"):
        check_folder(tmp_path / "a")
    stored = ObjectCache(tmp_path / "a")
    stored.store(KEY, b"code")
    assert stored.load(KEY) is None


@pytest.mark.parametrize("mask", [0o000, 0o002, 0o022, 0o077, 0o777])
def test_what_is_made_is_the_users_alone(
    cache: Path, mask: int, umask: Callable[[int], None]
) -> None:
    umask(mask)
    run()
    umask(0o022)
    found = list(cache.parent.rglob("*"))
    assert {stat.S_IMODE(p.stat().st_mode) for p in found if p.is_dir()} == {0o700}
    assert {stat.S_IMODE(p.stat().st_mode) for p in found if p.is_file()} == {0o600}
    assert stat.S_IMODE(cache.parent.stat().st_mode) == 0o700


def pipe(path: Path) -> None:
    os.mkfifo(path)


def folder(path: Path) -> None:
    path.mkdir()


def link(path: Path) -> None:
    path.symlink_to(path.with_name("moved"))


def link_to_nothing(path: Path) -> None:
    path.symlink_to("nowhere")


def link_to_a_device(path: Path) -> None:
    path.symlink_to("/dev/zero")


def listener(path: Path) -> None:
    here = os.getcwd()
    os.chdir(path.parent)  # names of sockets are short
    try:
        with socket.socket(socket.AF_UNIX) as bound:
            bound.bind(path.name)
    finally:
        os.chdir(here)


@pytest.mark.parametrize("thing", [pipe, folder, link, link_to_nothing, link_to_a_device, listener])
@pytest.mark.parametrize("kind", ["programs", "objects"])
def test_entries_that_are_no_files_are_ignored(
    cache: Path, kind: str, thing: Callable[[Path], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    if kind == "objects":
        monkeypatch.setenv(program_cache.SWITCH_VARIABLE, "0")
    run()
    for entry in files(cache / kind):
        entry.rename(entry.with_name("moved"))
        thing(entry)
        run()
        assert stat.S_ISDIR(entry.lstat().st_mode) == (thing is folder)
        assert stat.S_ISREG(entry.lstat().st_mode) == (thing is not folder)
        entry.with_name("moved").unlink(missing_ok=True)


@needs_root
def test_devices_are_ignored(cache: Path) -> None:
    stored = ObjectCache(cache)
    make_folder(stored.path(KEY).parent)
    try:
        os.mknod(stored.path(KEY), 0o600 | stat.S_IFCHR, os.makedev(1, 5))
    except PermissionError:
        pytest.skip("this container makes no devices")
    assert stored.load(KEY) is None
    assert stored.mapped(KEY) is None
    stored.store(KEY, b"code")
    assert stored.load(KEY) == b"code"
    assert stored.mapped(KEY) == b"code"


Damage: TypeAlias = "Callable[[bytes], bytes]"

FILE_DAMAGES: tuple[Damage, ...] = (
    lambda whole: whole[:20],
    lambda whole: whole[:-1],
    lambda whole: whole + b"x",
    lambda whole: whole.replace(b"convir object 3", b"convir object 2"),
    lambda _: b"",
)
CODE_DAMAGES: tuple[Damage, ...] = (
    lambda _: b"no object",
    lambda _: b"",
    lambda code: code[:64],
    lambda code: code[: len(code) // 2],
    lambda code: code[:64] + bytes(len(code) - 64),
    lambda code: code[:6] + b"\xff" * len(code),
)


@pytest.mark.parametrize("damage", FILE_DAMAGES)
def test_damaged_files_are_replaced(cache: Path, damage: Damage) -> None:
    stored = ObjectCache(cache)
    stored.store(KEY, b"code")
    path = stored.path(KEY)
    path.write_bytes(damage(path.read_bytes()))
    assert stored.load(KEY) is None
    assert stored.mapped(KEY) is None
    stored.store(KEY, b"code")
    assert stored.load(KEY) == b"code"
    assert stored.mapped(KEY) == b"code"


@pytest.mark.parametrize("damage", CODE_DAMAGES)
def test_what_is_no_object_code_is_compiled_again(cache: Path, damage: Damage) -> None:
    code = jit.object_code(ADD, target(), exports=("add",))
    stored = ObjectCache(cache / "objects")
    stored.store(code.key, damage(code.code))
    assert jit.object_code(ADD, target(), exports=("add",)) == code
    assert stored.load(code.key) == code.code


def test_what_is_no_cubin_is_compiled_again(cache: Path) -> None:
    nvrtc_or_skip()
    source = 'extern "C" __global__ void add(float *x) { x[threadIdx.x] += 1; }'
    cubin = compile_cubin(source, "sm_80")
    (entry,) = files(cache / "cubins")
    for damage in (b"", b"no cubin"):
        ObjectCache(cache / "cubins").store(entry.parent.name + entry.stem, damage)
        assert compile_cubin(source, "sm_80") == cubin
    assert {stat.S_IMODE(path.stat().st_mode) for path in files(cache)} == {0o600}


def test_a_program_whose_code_is_damaged_is_compiled_again(
    cache: Path, caplog: pytest.LogCaptureFixture
) -> None:
    from dataclasses import replace  # noqa: PLC0415

    from convir.runtime.cache.program_entry import HostPlan, decode, encode  # noqa: PLC0415

    run()
    stored = ObjectCache(cache / "programs")
    (entry,) = files(cache / "programs")
    key = entry.parent.name + entry.stem
    content = stored.load(key)
    assert content is not None
    plan = decode(content)
    assert isinstance(plan, HostPlan)
    codes = tuple(replace(code, key="other", code=code.code[:80]) for code in plan.codes)
    stored.store(key, encode(replace(plan, codes=codes)))
    with caplog.at_level(logging.WARNING):
        run()
    assert "cannot be loaded, compiling again" in caplog.text
    assert stored.load(key) == content


def test_records_are_read_from_private_files(cache: Path) -> None:
    assert private_records() == ()
    make_folder(cache)
    user_records().write_text("")
    assert private_records() == (str(user_records()),)
    user_records().unlink()
    os.mkfifo(user_records())
    assert private_records() == ()
    run()
    user_records().unlink()
    user_records().write_text("")
    others_write(cache)
    assert private_records() == ()


WITHOUT_HOME = """
import logging, os, sys
import convir, numpy
text = sys.stdin.read()
x = numpy.ones((4, 8), numpy.float32)
if len(sys.argv) > 1:
    # What is imported later may lie where the other user may not look.
    os.environ["CONVIR_CACHE_DIR"] = os.environ["TMPDIR"] + "/before"
    convir.compile(text.replace("4x8", "4x9"), device="host")
    del os.environ["CONVIR_CACHE_DIR"]
    os.setgroups([])
    os.setgid(int(sys.argv[1]))
    os.setuid(int(sys.argv[1]))
logging.basicConfig(level=logging.WARNING, format="told: %(message)s")
for _ in range(2):
    assert (convir.compile(text, device="host")(x, x) == 2).all()
from convir.runtime.cache.object_cache import cache_folder
print(cache_folder())
"""


def without(home: str | None, *arguments: str, temporaries: Path) -> tuple[str, list[str]]:
    """The cache folder of a process with this home, and what it warns of."""
    dropped = ("HOME", "XDG_CACHE_HOME", "CONVIR_CACHE_DIR")
    environment = {k: v for k, v in os.environ.items() if k not in dropped}
    environment |= {"TMPDIR": str(temporaries)} | ({} if home is None else {"HOME": home})
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_HOME, *arguments],
        input=SUM,
        capture_output=True,
        text=True,
        check=False,
        env=environment,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip(), [x for x in done.stderr.splitlines() if x.startswith("told: ")]


@needs_root
def test_a_user_without_a_home_caches_beside_temporary_files() -> None:
    with tempfile.TemporaryDirectory() as name:  # pytest's folders are root's alone
        temporaries = Path(name)
        shared_like_tmp(temporaries)
        found, told = without(None, str(STRANGER), temporaries=temporaries)
        assert (found, told) == (str(temporaries / f"convir-{STRANGER}"), [])
        assert files(Path(found))


@needs_root
def test_root_uses_no_cache_in_the_home_of_another(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir(0o755)
    of_another(home)
    _, told = without(str(home), temporaries=tmp_path)
    (one,) = told
    assert f"{home} belongs to user {STRANGER}" in one
    assert list(home.iterdir()) == []


@pytest.mark.parametrize("home", ["/dev/null", "/proc/nowhere"])
def test_a_home_that_is_none_is_no_error(home: str, tmp_path: Path) -> None:
    _, told = without(home, temporaries=tmp_path)
    assert all("cannot be used" in line for line in told)
    assert told
