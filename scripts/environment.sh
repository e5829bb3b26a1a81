# Sourced by scripts/test and scripts/study: makes the project's virtual environment on first use, installs into it what
# the caller needs, and goes to the project's root. The caller sets
#   kind      its name
#   target    what pip installs
#   enough    the stamps that make an install needless

root=$(CDPATH='' cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.." && pwd -P)
venv=${JAXVAR_VENV:-$root/.venv}
[[ $venv == /* ]] || venv=$PWD/$venv
venv=${venv%/}
python=$venv/bin/python

say() { echo "scripts/$kind: $*" >&2; }

fail() {
    say "$*"
    exit 1
}

find_python() { # runs each candidate: a name on PATH may be a launcher with nothing behind it
    local name
    for name in python3.13 python3.12 python3.11 python3 python; do
        if "$name" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1; then
            echo "$name"
            return
        fi
    done
    return 1
}

venv_works() { "$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1; }

is_installed() { # a stamp is written after a whole install and holds what was installed
    local name
    venv_works || return 1
    for name in "${enough[@]}"; do
        if [[ -f $venv/jaxvar-$name.stamp && $(<"$venv/jaxvar-$name.stamp") == "$stamp" ]]; then
            return
        fi
    done
    return 1
}

make_venv() {
    local base
    base=$(find_python) || fail "needs Python 3.11 or newer with pip and venv, and found none on PATH"
    if [[ -n ${JAXVAR_VENV:-} && -e $venv && -n $(ls -A -- "$venv") ]]; then
        fail "JAXVAR_VENV=$venv exists and is not a virtual environment with Python 3.11 or newer"
    fi
    say "making $venv with $("$base" --version)"
    "$base" -m venv --clear -- "$venv"
}

install() {
    venv_works || make_venv
    "$python" -m pip --version >/dev/null 2>&1 || "$python" -m ensurepip >/dev/null
    say "installing $target and its dependencies into $venv (takes a minute or two the first time)"
    rm -f -- "$venv"/jaxvar-*.stamp
    (cd -- "$root" && "$python" -m pip install -qq --disable-pip-version-check --editable "$target")
    echo "$stamp" >"$venv/jaxvar-$kind.stamp"
}

stamp="$root $(cksum <"$root/pyproject.toml")"
if ! is_installed; then
    mkdir -p -- "$(dirname -- "$venv")"
    if command -v flock >/dev/null; then # one set-up at a time
        exec 9>"$venv.lock"
        flock --nonblock 9 || {
            say "waiting for another set-up of $venv"
            flock 9
        }
    fi
    is_installed || install
    exec 9>&-
fi
cd -- "$root"
