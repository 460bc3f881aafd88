// Programmatic dependent launch: a grid may begin before the grid ahead of it has ended; PTX ISA,
// "griddepcontrol". Launched without that attribute, neither does anything.
#pragma once

namespace convir::hopper {

// Waits until the grids ahead have ended, and what they wrote is seen. Before it a thread reads no
// memory that they write, and writes none.
__device__ __forceinline__ void wait_on_dependent_grids() {
  asm volatile("griddepcontrol.wait;" ::: "memory");
}

// The next grid may begin when all blocks have come here. Behind the wait, no more than two grids
// are there at a time.
__device__ __forceinline__ void launch_dependent_grids() {
  asm volatile("griddepcontrol.launch_dependents;");
}

}  // namespace convir::hopper
