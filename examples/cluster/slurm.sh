#!/usr/bin/env bash
# One model on ranks that Slurm starts: sbatch examples/cluster/slurm.sh CONFIG RUN
#
# The same command begins the run and goes on with it. What is below can be said to sbatch too, and is then taken from there:
# sbatch --nodes 8 --ntasks-per-node 4 --cpus-per-task 16 …; nodes times tasks is a power of two.
#SBATCH --job-name=cogwheel
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=2
#SBATCH --cpus-per-task=1
#SBATCH --time=24:00:00
#SBATCH --requeue
#SBATCH --open-mode=append
#SBATCH --output=%x-%j.out
# SIGTERM to the ranks, five minutes before the time is over: they keep a checkpoint.
#SBATCH --signal=TERM@300
set -u

config=${1:?expected a configuration, got none}
run=${2:?expected a folder for the run, got none}
interrupted=130
terminated=143  # asked to stop before the first step

# Every node must find the first one by this name, and reach this port of it.
MASTER_ADDR=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)
MASTER_PORT=$((20000 + SLURM_JOB_ID % 10000))
export MASTER_ADDR MASTER_PORT
export OMP_NUM_THREADS=${OMP_NUM_THREADS:-${SLURM_CPUS_PER_TASK:-1}}

# Slurm says each task its number.
srun --kill-on-bad-exit=1 --cpus-per-task="${SLURM_CPUS_PER_TASK:-1}" bash -c '
  RANK=$SLURM_PROCID LOCAL_RANK=$SLURM_LOCALID WORLD_SIZE=$SLURM_NTASKS exec "${COGWHEEL_PYTHON:-python}" -m cogwheel train "$0" --out "$1" --resume
' "$config" "$run"
status=$?

# Slurm itself begins again after a preemption and the loss of a node, but not where the time is over.
if ((status == interrupted || status == terminated)); then
  scontrol requeue "$SLURM_JOB_ID"
fi
exit "$status"
