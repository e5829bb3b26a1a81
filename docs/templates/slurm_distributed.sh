#!/usr/bin/env bash
# One study on all GPUs of several nodes at once, by jax.distributed: one process for each GPU.
#
#   sbatch slurm_distributed.sh STUDY OUT      STUDY: a TOML file or a name; OUT: a folder that the first node sees
#
# Submitting it again goes on with what is not finished.
#SBATCH --job-name=jaxvar
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=4
#SBATCH --gpus-per-node=4
#SBATCH --time=04:00:00
set -euo pipefail

study=${1:?name a study}
out=${2:?name a folder for the results}

srun jaxvar run "$study" --distributed --device gpu --out "$out" --chunk 16384 --no-progress
