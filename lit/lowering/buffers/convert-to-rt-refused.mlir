// What no runtime call does is one error at the place where it stands.
// RUN: convir-opt %s -p fuse-epilogue,form-kernel-regions,outline-kernels,convert-to-rt --split-input-file --verify-diagnostics

// expected-error@+1 {{sizes must be bound before lowering: tensor<?x4xf32>}}
func.func @dynamic(%x: tensor<?x4xf32>) -> tensor<?x4xf32> {
  return %x : tensor<?x4xf32>
}

// -----

// expected-error@+1 {{no buffer holds a tensor with an encoding}}
func.func @encoding(%x: tensor<4xf32, "blocked">) -> tensor<4xf32, "blocked"> {
  return %x : tensor<4xf32, "blocked">
}

// -----

// expected-error@+1 {{takes 4611686018427387904 bytes, which no address space holds}}
func.func @too_large(%x: tensor<1073741824x1073741824xf32>) -> tensor<1073741824x1073741824xf32> {
  return %x : tensor<1073741824x1073741824xf32>
}

// -----

// expected-error@+1 {{the elements of memref<none> have no size}}
func.func @no_size(%x: none) {
  return
}

// -----

func.func private @g(f32) -> f32
func.func @a_call(%x: f32) -> f32 {
  // expected-error@+1 {{func.call is outside of every kernel, and no runtime call computes it}}
  %0 = func.call @g(%x) : (f32) -> f32
  return %0 : f32
}
