#!/usr/bin/env bash
# Join the parts of a job array, and make figures, tables and the page.
#
#   sbatch --dependency=afterok:JOB slurm_merge.sh OUT      JOB: the array's number; OUT: its folder
#SBATCH --job-name=jaxvar-merge
#SBATCH --time=00:10:00
set -euo pipefail

out=${1:?name the folder of the array}

jaxvar merge "$out"/part-* --out "$out/whole"
jaxvar figures "$out/whole"
jaxvar table "$out/whole" --to latex >"$out/whole/tables.tex"
jaxvar report "$out/whole"
