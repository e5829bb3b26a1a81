#!/usr/bin/env bash
# One study as a Slurm job array: every member plays its share of the (cell, block of seeds) pairs.
#
#   sbatch slurm_array.sh STUDY OUT      STUDY: a TOML file or a name; OUT: a folder that all nodes see
#
# Submitting it again goes on with what is not finished; slurm_merge.sh joins the parts.
#SBATCH --job-name=jaxvar
#SBATCH --array=1-8
#SBATCH --cpus-per-task=4
#SBATCH --mem=8G
#SBATCH --time=04:00:00
#SBATCH --signal=B:TERM@60
set -euo pipefail

study=${1:?name a study}
out=${2:?name a folder for the results}
part=$SLURM_ARRAY_TASK_ID/$SLURM_ARRAY_TASK_COUNT

# A chunk of its own choosing may differ between nodes, and parts with different chunks cannot be merged.
# exec: the signal above then reaches jaxvar, which writes a checkpoint and ends.
exec jaxvar run "$study" --shard "$part" --out "$out/part-$SLURM_ARRAY_TASK_ID" --chunk 256 --no-progress
