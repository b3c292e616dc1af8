#!/bin/sh
# kernels/cuda/arch.sh NVCC [ARCH ...] - prints the flags for the devices that nvcc compiles for.
#
# Without ARCH: flags for every compute capability from 8.0 on that nvcc and the kernels support, and for PTX of the newest one, which a driver
# translates for later devices.  ARCH narrows the list: sm_90, or native for the device of this machine.
set -eu
nvcc=$1
shift
if [ $# = 0 ]; then
  known=$("$nvcc" --list-gpu-arch | sed -n 's/^compute_\([0-9]*\)$/\1/p')
  flags='' newest=''
  for a in 80 86 89 90 100; do
    for k in $known; do
      [ "$k" = $a ] || continue
      flags="$flags -gencode arch=compute_$a,code=sm_$a"
      newest=$a
    done
  done
  [ -n "$newest" ] || { echo "'$nvcc' knows none of the devices that weir has kernels for (8.0 to 10.0)" >&2; exit 1; }
  echo "${flags# } -gencode arch=compute_$newest,code=compute_$newest"
  exit
fi
flags=
for a; do
  case $a in
    native) flags="$flags -arch=native" ;;
    sm_[0-9]*) flags="$flags -gencode arch=compute_${a#sm_},code=$a" ;;
    *) echo "CUDA_ARCH is a list of sm_80, sm_90, ..., or native, not '$a'" >&2; exit 1 ;;
  esac
done
echo "${flags# }"
