// The quantizer's constants as an argument of a kernel.
//
// STEP_IN_MEMORY  1: the host does not know them when it queues the kernel, and passes where they will be; 0: by value
#pragma once
#include "quantize/structs.cuh"

#if STEP_IN_MEMORY
typedef const Step *StepArgument;
__device__ inline const Step &step_in(const StepArgument &argument) { return *argument; }
#else
typedef Step StepArgument;
__device__ inline const Step &step_in(const StepArgument &argument) { return argument; }
#endif
