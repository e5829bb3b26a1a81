"""The ``jaxvar`` command.

A verb is imported when it is asked for: ``jaxvar --help`` and ``jaxvar --version`` do not wait for JAX.
"""

import contextlib
import difflib
import hashlib
import importlib
import os
import platform
import signal
import sys
import textwrap
import threading
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Literal, NamedTuple

from jaxvar import __version__

DONE, FAILED, USAGE, INTERRUPTED = 0, 1, 2, 130  # exit codes
WIDTH = 84  # columns of the overview
_CACHE_BYTES = 2**30  # of compiled programs; those unused for longest are removed beyond it
_WHOLE_LOOPS = "xla_cpu_small_while_loop_byte_threshold=1000000000"
_WIDEST_VECTORS = "--xla_cpu_prefer_vector_width=512"
_NO_LIBRARY = "--xla_cpu_experimental_ynn_fusion_type="  # of reductions: it cannot be part of a native loop
_NO_EMITTERS = "--xla_cpu_use_fusion_emitters=false"  # for what is outside of loops: compiled 0.1 to 0.4 s sooner
_ONE_MODULE = "--xla_cpu_parallel_codegen_split_count=1"  # of it: UCRL-AVE's loops never wait for others (0.1 s sooner)


class Verb(NamedTuple):
    """A verb of the command line, and where its code is."""

    about: str
    module: str
    target: str  # a function of the arguments, or a class of options
    run: str | None = None  # a function of these options
    needs_jax: bool = True


VERBS = {
    "audit": Verb("Judge the paper's statements on simulated runs.", "jaxvar.theory.audit", "Audit", "audit_command"),
    "bench": Verb("Print how many steps per second this machine plays.", "jaxvar.bench", "Bench", "bench"),
    "calibrate": Verb(
        "Find the smallest radius that keeps the confidence event as often as promised.",
        "jaxvar.theory.calibrate",
        "Calibrate",
        "calibrate_command",
    ),
    "export": Verb("Write a study's results to one file.", "jaxvar.commands", "export_command"),
    "figures": Verb("Draw the figures of a study that was run.", "jaxvar.show", "figures"),
    "list": Verb("Print the algorithms with what is claimed of them.", "jaxvar.cli", "print_list", needs_jax=False),
    "merge": Verb("Join the parts of a study that were run into several folders.", "jaxvar.commands", "merge_command"),
    "report": Verb("Make one HTML page of a study that was run.", "jaxvar.show", "report"),
    "run": Verb("Run a study, or resume one that was interrupted.", "jaxvar.commands", "Run", "run_command"),
    "table": Verb("Print the tables of a study that was run.", "jaxvar.show", "table"),
    "version": Verb("Print the version.", "jaxvar.cli", "print_version", needs_jax=False),
}


def main(argv: list[str] | None = None) -> int:
    """Run the command and return its exit code: 0 done, 1 failed, 2 bad usage, 130 stopped by Ctrl-C or SIGTERM."""
    try:
        with handling_signals(_end_at_once):
            return _run_verb(sys.argv[1:] if argv is None else argv)
    except KeyboardInterrupt:
        print("\njaxvar: stopped", file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:  # the program that reads the output, such as head, has ended
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # nothing is written at exit either
        return FAILED


@contextlib.contextmanager
def handling_signals(handler: Callable[[int, types.FrameType | None], None]) -> Iterator[None]:
    """Let ``handler`` handle Ctrl-C and SIGTERM within."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.signal(number, handler) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, old in before.items():
            signal.signal(number, old)


def _end_at_once(number: int, frame: types.FrameType | None) -> None:
    """End the process: while JAX is imported, or collects its garbage, a KeyboardInterrupt crashes or is lost."""
    os.write(2, b"\njaxvar: stopped\n")
    os._exit(INTERRUPTED)


def _run_verb(words: list[str]) -> int:
    """Run a verb with its arguments and return its exit code."""
    if not words or words[0] in ("-h", "--help"):
        print(overview(), end="")
        return 0
    name, *rest = words
    if name == "--version":
        return print_version()
    if name not in VERBS:
        near = difflib.get_close_matches(name, VERBS, n=1)
        hint = f" (did you mean {near[0]}?)" if near else ""
        print(f"jaxvar: unknown verb {name!r}{hint}; the verbs are {', '.join(VERBS)}", file=sys.stderr)
        return USAGE
    if VERBS[name].needs_jax:
        import jax

        tune_cpu()
        keep_programs()
        jax.config.update("jax_enable_x64", True)
    import tyro

    target, run = load_verb(name)
    config = [tyro.conf.DisallowNone] if hasattr(tyro.conf, "DisallowNone") else []  # PATH in the help, not {None}|PATH
    # A run of a study stops by itself, with all it has played on disk; the other verbs clean up what they began.
    stops_by_itself = name == "run"
    with contextlib.nullcontext() if stops_by_itself else handling_signals(signal.default_int_handler):
        found = tyro.cli(target, prog=f"jaxvar {name}", args=rest, config=config)
        return found if run is None else run(found)


def overview() -> str:
    """Return the help of the command: usage, and a line for each verb."""
    usage = f"usage: jaxvar [-h] [--version] {{{','.join(VERBS)}}} ..."
    lines = textwrap.wrap(usage, WIDTH, subsequent_indent=" " * 7, break_long_words=False)
    lines += ["", "Batched simulation of variance-adaptive bandits and reinforcement learning.", ""]
    for name, verb in VERBS.items():
        indent = f"  {name:11}"
        lines += textwrap.wrap(verb.about, WIDTH, initial_indent=indent, subsequent_indent=" " * len(indent))
    lines += ["", "jaxvar VERB --help shows the options of a verb."]
    return "\n".join(lines) + "\n"


def load_verb(name: str) -> tuple[Callable[..., int], Callable[[int], int] | None]:
    """Import a verb: the function or options that tyro fills from the arguments, and the function of the options."""
    verb = VERBS[name]
    module = importlib.import_module(verb.module)
    return getattr(module, verb.target), None if verb.run is None else getattr(module, verb.run)


def tune_cpu(num_devices: int | None = None) -> None:
    """Make one JAX device per core, compile each scan to one native loop, and use the widest vectors there are.

    By default XLA runs the operations of a loop body one by one from a task list. Raising the size up to which it
    compiles a loop as a whole removes that cost: programs like ours, with many small operations in millions of
    rounds, become about three times faster on two cores. XLA also keeps to 256-bit vectors unless told otherwise;
    with 512 bits, where the processor has them, arms are drawn and measured about 1.5 times as fast.

    Call it before anything touches a JAX device; the ``jaxvar`` command does. It changes ``XLA_FLAGS`` and
    ``jax_num_cpu_devices`` of this process.

    One thing is known not to work with it: a loop over rounds that solves linear systems of some size (seen with
    ``jnp.linalg.solve`` of 50 x 50 matrices in a recorder) may wait for itself forever where there are several
    devices. Rank-one updates, as in :mod:`jaxvar.ridge`, need no solver; or call ``tune_cpu(1)``.

    Args:
      num_devices: devices to make; one per available core if not given.

    Raises:
      RuntimeError: if JAX has started its CPU backend already, since it would then ignore the settings.
    """
    import jax

    from jaxvar import parameters

    if num_devices is None:
        num_devices = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    parameters.check_count("num_devices", num_devices)
    try:
        # JAX refuses a change once it has started, but not a value that is there already: so change it twice.
        jax.config.update("jax_num_cpu_devices", num_devices + 1)
        jax.config.update("jax_num_cpu_devices", num_devices)
    except RuntimeError:
        raise RuntimeError("tune_cpu must be called before JAX is first used: its CPU backend has started") from None
    flags = os.environ.get("XLA_FLAGS", "")
    if "small_while_loop_byte_threshold" not in flags:
        flags = f"{flags} --xla_backend_extra_options={_WHOLE_LOOPS}"
    if "prefer_vector_width" not in flags:
        flags = f"{flags} {_WIDEST_VECTORS}"
    version = jax.version.__version_info__  # XLA ends at flags it does not know
    if version >= (0, 10) and "ynn_fusion_type" not in flags:
        flags = f"{flags} {_NO_LIBRARY}"
    if version < (0, 11) and "use_fusion_emitters" not in flags:
        flags = f"{flags} {_NO_EMITTERS}"
    if version < (0, 11) and "parallel_codegen_split_count" not in flags:
        flags = f"{flags} {_ONE_MODULE}"
    os.environ["XLA_FLAGS"] = flags.strip()


def keep_programs(folder: str | Path | None = None) -> None:
    """Keep compiled programs in a folder, so that the next process need not compile them again.

    The ``jaxvar`` command calls this; a script or a notebook may, before it compiles anything. Several processes may
    share the folder. Whoever can write to it can run code as you: it must be your own.

    Args:
      folder: the folder. If not given, the one that the environment variable ``JAXVAR_CACHE`` names (nothing is kept
        if that is ``off``); else JAX's, if ``JAX_COMPILATION_CACHE_DIR`` names one; else ``jaxvar`` in the user's
        folder for caches, which is kept below 1 GB.
    """
    import filelock
    import jax

    given = os.environ.get("JAXVAR_CACHE", "") if folder is None else str(folder)
    if given == "off" or (not given and jax.config.jax_compilation_cache_dir):  # type: ignore[attr-defined]
        return
    # A program fits the processor that it was compiled on, and several kinds may share a home folder.
    users = "~/Library/Caches" if sys.platform == "darwin" else os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    kept = Path(given or f"{users}/jaxvar").expanduser().resolve() / f"programs-{_processor()}"
    try:
        kept.mkdir(mode=0o700, parents=True, exist_ok=True)
        with filelock.FileLock(kept / ".lockfile", timeout=10):  # the one that JAX takes
            for program in kept.glob("*-cache"):
                if not program.with_name(program.name.removesuffix("-cache") + "-atime").exists():
                    program.unlink()  # its writer was killed, and JAX would neither read nor replace it
    except (OSError, filelock.Timeout) as error:
        print(f"jaxvar: compiled programs are not kept, since {kept} cannot be used: {error}", file=sys.stderr)
        return
    jax.config.update("jax_compilation_cache_dir", str(kept))
    jax.config.update("jax_compilation_cache_max_size", _CACHE_BYTES)
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.1)
    jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)


def _processor() -> str:
    """Return hexadecimal digits that identify the kind of processor and what it can do."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    found = [line for line in lines if line.startswith(("model name", "flags", "Features", "CPU part"))]
    return hashlib.sha256(repr((platform.machine(), *sorted(set(found)))).encode()).hexdigest()[:12]


def print_list(to: Literal["text", "csv", "latex"] = "text") -> int:
    """Print the algorithms with what is claimed of them, in the order of the paper's comparison tables.

    Args:
      to: Plain text, CSV with every field, or LaTeX.
    """
    from jaxvar.listing import listing

    print(listing(to), end="")
    return 0


def print_version() -> int:
    """Print the version."""
    print(__version__)
    return 0


if __name__ == "__main__":
    sys.exit(main())
