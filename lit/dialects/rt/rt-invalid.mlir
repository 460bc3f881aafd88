// What the verifier of the rt ops rejects, and what it says.
// RUN: convir-opt %s --split-input-file --verify-diagnostics

func.func @f(%x: memref<4xf32>, %y: memref<4xf32>) attributes {rt.program} {
  // expected-error@+1 {{an arena is a memref of bytes, got memref<4xf32>}}
  %a = rt.arena : memref<4xf32>
  return
}

// -----

func.func @f(%x: memref<4xf32>, %y: memref<4xf32>) attributes {rt.program} {
  // expected-error@+1 {{rt buffers have static shapes, got memref<?xi8>}}
  %a = rt.arena : memref<?xi8>
  return
}

// -----

func.func @f(%x: memref<4xf32>, %y: memref<4xf32>) attributes {rt.program} {
  %a = rt.arena : memref<1024xi8>
  // expected-error@+1 {{bytes 1280 to 1296 do not lie in a buffer of 1024 bytes}}
  %t = rt.view %a[1280] : memref<1024xi8> to memref<4xf32>
  return
}

// -----

func.func @f(%x: memref<4xf32>, %y: memref<4xf32>) attributes {rt.program} {
  // expected-error@+1 {{bytes 8 to 24 do not lie in a buffer of 16 bytes}}
  %t = rt.view %x[8] : memref<4xf32> to memref<4xf32>
  return
}

// -----

func.func @f(%x: memref<4xf32>, %y: memref<4xf32>) attributes {rt.program} {
  // expected-error@+1 {{bytes -4 to 4 do not lie in a buffer of 16 bytes}}
  %t = rt.view %x[-4] : memref<4xf32> to memref<2xf32>
  return
}

// -----

func.func @f(%x: memref<4xf32>, %y: memref<4xf32>) attributes {rt.program} {
  %a = rt.arena : memref<1024xi8>
  // expected-error@+1 {{arena offset 128 is not a multiple of 256}}
  %t = rt.view %a[128] : memref<1024xi8> to memref<4xf32>
  return
}

// -----

func.func @f(%x: memref<4xf32>, %y: memref<4xf32>) attributes {rt.program} {
  // expected-error@+1 {{offset 2 is not a multiple of 4 bytes}}
  %t = rt.view %x[2] : memref<4xf32> to memref<2xf32>
  return
}

// -----

func.func @f(%x: memref<4xf32>, %y: memref<4xf32>) attributes {rt.program} {
  // expected-error@+1 {{rt buffers are dense and in the default space}}
  %t = rt.view %x[0] : memref<4xf32> to memref<2xf32, strided<[2]>>
  return
}

// -----

func.func @f(%x: memref<4xf32>, %y: memref<4xf32>) attributes {rt.program} {
  // expected-error@+1 {{the elements are of tensor<2xf32>, the buffer is memref<4xf32>}}
  %c = rt.constant dense<1.0> : tensor<2xf32> : memref<4xf32>
  return
}

// -----

func.func @f(%x: memref<4xf32>, %y: memref<4xf32>) attributes {rt.program} {
  // expected-error@+1 {{rt buffers have static shapes, got memref<?xi32>}}
  %s = rt.state : memref<?xi32>
  return
}

// -----

func.func @f(%x: memref<4xf32>, %y: memref<4xf32>) attributes {rt.program} {
  // expected-error@+1 {{a fill of memref<4xf32> with a value of type f16}}
  rt.fill 0.0 : f16 into %y : memref<4xf32>
  return
}

// -----

func.func @f(%x: memref<4xf32>, %y: memref<4xf16>) attributes {rt.program} {
  // expected-error@+1 {{a copy does not convert elements}}
  rt.copy %x to %y : memref<4xf32> to memref<4xf16>
  return
}

// -----

func.func @f(%x: memref<4xf32>, %y: memref<5xf32>) attributes {rt.program} {
  // expected-error@+1 {{a copy needs as many elements on both sides}}
  rt.copy %x to %y : memref<4xf32> to memref<5xf32>
  return
}

// -----

// The caller's arrays are the caller's.
func.func @f(%x: memref<4xf32>, %y: memref<4xf32>) attributes {rt.program} {
  // expected-error@+1 {{argument 0 is written, which is an input of the program}}
  rt.copy %y to %x : memref<4xf32> to memref<4xf32>
  return
}

// -----

// A view of an input is the input.
func.func @f(%x: memref<4xf32>, %y: memref<4xf32>) attributes {rt.program} {
  %v = rt.view %x[0] : memref<4xf32> to memref<2x2xf32>
  // expected-error@+1 {{argument 0 is written, which is an input of the program}}
  rt.fill 0.0 : f32 into %v : memref<2x2xf32>
  return
}

// -----

func.func @f(%x: memref<4xf32>, %y: memref<4xf32>) attributes {rt.program} {
  %c = rt.constant dense<1.0> : tensor<4xf32> : memref<4xf32>
  // expected-error@+1 {{a constant is written}}
  rt.copy %x to %c : memref<4xf32> to memref<4xf32>
  return
}

// -----

func.func @f(%a: memref<2x3xf32>, %b: memref<3x4xf32>, %c: memref<2x4xf32>) attributes {rt.program} {
  // expected-error@+1 {{k is negative}}
  rt.gemm {m = 2 : i64, n = 4 : i64, k = -1 : i64, batch = 1 : i64, lda = 3 : i64, ldb = 4 : i64, ldc = 4 : i64, stride_a = 0 : i64, stride_b = 0 : i64, stride_c = 0 : i64}
    ins(%a, %b : memref<2x3xf32>, memref<3x4xf32>) outs(%c : memref<2x4xf32>)
  return
}

// -----

func.func @f(%a: memref<2x3xf32>, %b: memref<3x4xf32>, %c: memref<2x4xf32>) attributes {rt.program} {
  // expected-error@+1 {{stride_a is negative}}
  rt.gemm {m = 2 : i64, n = 4 : i64, k = 3 : i64, batch = 1 : i64, lda = 3 : i64, ldb = 4 : i64, ldc = 4 : i64, stride_a = -6 : i64, stride_b = 0 : i64, stride_c = 0 : i64}
    ins(%a, %b : memref<2x3xf32>, memref<3x4xf32>) outs(%c : memref<2x4xf32>)
  return
}

// -----

func.func @f(%a: memref<2x3xf32>, %b: memref<3x4xf32>, %c: memref<2x4xf32>) attributes {rt.program} {
  // expected-error@+1 {{lda = 2 is less than a row of 3}}
  rt.gemm {m = 2 : i64, n = 4 : i64, k = 3 : i64, batch = 1 : i64, lda = 2 : i64, ldb = 4 : i64, ldc = 4 : i64, stride_a = 0 : i64, stride_b = 0 : i64, stride_c = 0 : i64}
    ins(%a, %b : memref<2x3xf32>, memref<3x4xf32>) outs(%c : memref<2x4xf32>)
  return
}

// -----

// The rows of a transposed A are the columns of A.
func.func @f(%a: memref<2x3xf32>, %b: memref<3x4xf32>, %c: memref<2x4xf32>) attributes {rt.program} {
  // expected-error@+1 {{lda = 1 is less than a row of 2}}
  rt.gemm {m = 2 : i64, n = 4 : i64, k = 3 : i64, batch = 1 : i64, lda = 1 : i64, ldb = 4 : i64, ldc = 4 : i64, stride_a = 0 : i64, stride_b = 0 : i64, stride_c = 0 : i64, transpose_a}
    ins(%a, %b : memref<2x3xf32>, memref<3x4xf32>) outs(%c : memref<2x4xf32>)
  return
}

// -----

func.func @f(%a: memref<2x3xf32>, %b: memref<3x4xf32>, %c: memref<2x4xf32>) attributes {rt.program} {
  // expected-error@+1 {{operand a reaches element 7 of a buffer of 6}}
  rt.gemm {m = 2 : i64, n = 4 : i64, k = 3 : i64, batch = 1 : i64, lda = 4 : i64, ldb = 4 : i64, ldc = 4 : i64, stride_a = 0 : i64, stride_b = 0 : i64, stride_c = 0 : i64}
    ins(%a, %b : memref<2x3xf32>, memref<3x4xf32>) outs(%c : memref<2x4xf32>)
  return
}

// -----

func.func @f(%a: memref<2x3xf32>, %b: memref<3x4xf32>, %c: memref<2x2x4xf32>) attributes {rt.program} {
  // expected-error@+1 {{operand b reaches element 24 of a buffer of 12}}
  rt.gemm {m = 2 : i64, n = 4 : i64, k = 3 : i64, batch = 2 : i64, lda = 3 : i64, ldb = 4 : i64, ldc = 4 : i64, stride_a = 0 : i64, stride_b = 12 : i64, stride_c = 8 : i64}
    ins(%a, %b : memref<2x3xf32>, memref<3x4xf32>) outs(%c : memref<2x2x4xf32>)
  return
}

// -----

// Every batch needs a result of its own.
func.func @f(%a: memref<2x3xf32>, %b: memref<3x4xf32>, %c: memref<2x4xf32>) attributes {rt.program} {
  // expected-error@+1 {{the results of two batches overlap}}
  rt.gemm {m = 2 : i64, n = 4 : i64, k = 3 : i64, batch = 2 : i64, lda = 3 : i64, ldb = 4 : i64, ldc = 4 : i64, stride_a = 0 : i64, stride_b = 0 : i64, stride_c = 0 : i64}
    ins(%a, %b : memref<2x3xf32>, memref<3x4xf32>) outs(%c : memref<2x4xf32>)
  return
}

// -----

func.func @f(%a: memref<2x3xf32>, %b: memref<3x4xf16>, %c: memref<2x4xf32>) attributes {rt.program} {
  // expected-error@+1 {{a is of f32, b of f16}}
  rt.gemm {m = 2 : i64, n = 4 : i64, k = 3 : i64, batch = 1 : i64, lda = 3 : i64, ldb = 4 : i64, ldc = 4 : i64, stride_a = 0 : i64, stride_b = 0 : i64, stride_c = 0 : i64}
    ins(%a, %b : memref<2x3xf32>, memref<3x4xf16>) outs(%c : memref<2x4xf32>)
  return
}

// -----

func.func @f(%a: memref<2x3xi32>, %b: memref<3x4xi32>, %c: memref<2x4xi32>) attributes {rt.program} {
  // expected-error@+1 {{there is no product of matrices of i32}}
  rt.gemm {m = 2 : i64, n = 4 : i64, k = 3 : i64, batch = 1 : i64, lda = 3 : i64, ldb = 4 : i64, ldc = 4 : i64, stride_a = 0 : i64, stride_b = 0 : i64, stride_c = 0 : i64}
    ins(%a, %b : memref<2x3xi32>, memref<3x4xi32>) outs(%c : memref<2x4xi32>)
  return
}

// -----

func.func @f(%a: memref<2x3xbf16>, %b: memref<3x4xbf16>, %c: memref<2x4xf16>) attributes {rt.program} {
  // expected-error@+1 {{matrices of bf16 give no result of f16}}
  rt.gemm {m = 2 : i64, n = 4 : i64, k = 3 : i64, batch = 1 : i64, lda = 3 : i64, ldb = 4 : i64, ldc = 4 : i64, stride_a = 0 : i64, stride_b = 0 : i64, stride_c = 0 : i64}
    ins(%a, %b : memref<2x3xbf16>, memref<3x4xbf16>) outs(%c : memref<2x4xf16>)
  return
}

// -----

kernel.func @k(%x: tensor<4xf32>) -> tensor<4xf32> {
  kernel.return %x : tensor<4xf32>
}
func.func @f(%x: memref<4xf32>, %y: memref<4xf32>) attributes {rt.program} {
  // expected-error@+1 {{@gone does not name a kernel.func}}
  rt.launch @gone ins(%x : memref<4xf32>) outs(%y : memref<4xf32>)
  return
}

// -----

kernel.func @k(%x: tensor<4xf32>) -> tensor<4xf32> {
  kernel.return %x : tensor<4xf32>
}
func.func @f(%x: memref<4xf32>, %y: memref<4xf32>) attributes {rt.program} {
  // expected-error@+1 {{0 output buffers for 1 outputs}}
  rt.launch @k ins(%x : memref<4xf32>)
  return
}

// -----

kernel.func @k(%x: tensor<4xf32>) -> tensor<4xf32> {
  kernel.return %x : tensor<4xf32>
}
func.func @f(%x: memref<4xf32>, %y: memref<4xf32>) attributes {rt.program} {
  // expected-error@+1 {{2 input buffers for 1 inputs}}
  rt.launch @k ins(%x, %x : memref<4xf32>, memref<4xf32>) outs(%y : memref<4xf32>)
  return
}

// -----

kernel.func @k(%x: tensor<4xf32>) -> tensor<4xf32> {
  kernel.return %x : tensor<4xf32>
}
func.func @f(%x: memref<5xf32>, %y: memref<4xf32>) attributes {rt.program} {
  // expected-error@+1 {{input 0 is memref<5xf32>, the kernel's is tensor<4xf32>}}
  rt.launch @k ins(%x : memref<5xf32>) outs(%y : memref<4xf32>)
  return
}

// -----

kernel.func @k(%x: tensor<4xf32>) -> tensor<4xf32> {
  kernel.return %x : tensor<4xf32>
}
func.func @f(%x: memref<4xf32>, %y: memref<4xf32>) attributes {rt.program} {
  // expected-error@+1 {{argument 0 is written, which is an input of the program}}
  rt.launch @k ins(%x : memref<4xf32>) outs(%x : memref<4xf32>)
  return
}

// -----

kernel.func @k(%x: tensor<4xf32>) -> tensor<4xf32> {
  kernel.return %x : tensor<4xf32>
}
func.func @f(%x: memref<4xf32>, %y: memref<4xf32>, %w: memref<?xi8>) {
  // expected-error@+1 {{rt buffers have static shapes, got memref<?xi8>}}
  rt.launch @k ins(%x : memref<4xf32>) outs(%y : memref<4xf32>) workspace(%w : memref<?xi8>)
  return
}

// -----

// expected-error@+1 {{expected a memref, got f32}}
func.func @f(%x: f32, %y: memref<4xf32>) attributes {rt.program} {
  return
}

// -----

// expected-error@+1 {{rt buffers have static shapes, got memref<?xf32>}}
func.func @f(%y: memref<?xf32>) attributes {rt.program} {
  return
}

// -----

// expected-error@+1 {{rt.outputs is 3 : i64, with 1 arguments}}
func.func @f(%y: memref<4xf32>) attributes {rt.program, rt.outputs = 3} {
  return
}

// -----

// Without rt.outputs a program writes its last argument.
// expected-error@+1 {{rt.outputs is 1 : i64, with 0 arguments}}
func.func @f() attributes {rt.program} {
  return
}

// -----

// expected-error@+1 {{a program writes its last arguments and returns nothing}}
func.func @f(%y: memref<4xf32>) -> memref<4xf32> attributes {rt.program} {
  return %y : memref<4xf32>
}

// -----

// expected-error@+1 {{a program is one block}}
func.func @f(%y: memref<4xf32>) attributes {rt.program} {
  cf.br ^bb1
^bb1:
  return
}

// -----

// expected-error@+1 {{a program has one arena}}
func.func @f(%y: memref<4xf32>) attributes {rt.program} {
  %a = rt.arena : memref<256xi8>
  %b = rt.arena : memref<256xi8>
  return
}

// -----

kernel.func @k(%x: tensor<4xf32>) -> tensor<4xf32> { kernel.return %x : tensor<4xf32> }
func.func @f(%x: memref<4xf32>, %y: memref<4xf32>) attributes {rt.program} {
  // expected-error@+1 {{the config for device 'cuda' is not a string: 4 : i64}}
  rt.launch @k ins(%x : memref<4xf32>) outs(%y : memref<4xf32>) {configs = {cuda = 4 : i64}}
  return
}

// -----

kernel.func @k(%x: tensor<4xf32>) -> tensor<4xf32> { kernel.return %x : tensor<4xf32> }
func.func @f(%x: memref<4xf32>, %y: memref<4xf32>) attributes {rt.program} {
  // expected-error@+1 {{configs are a dictionary, not "loops"}}
  rt.launch @k ins(%x : memref<4xf32>) outs(%y : memref<4xf32>) {configs = "loops"}
  return
}
