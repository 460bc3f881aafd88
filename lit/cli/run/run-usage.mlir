// A command line that names what cannot be used is one line and exit 2.
// RUN: not convir-run %s --input=2xf16=ONES 2>&1 | filecheck %s --check-prefix=DTYPE
// RUN: not convir-run %s --input=3xf32=ONES 2>&1 | filecheck %s --check-prefix=SHAPE
// RUN: not convir-run %s --input=2xf32=1,2,3 2>&1 | filecheck %s --check-prefix=COUNT
// RUN: not convir-run %s --input=2xf32=one 2>&1 | filecheck %s --check-prefix=VALUE
// RUN: not convir-run %s --input=@%t.none 2>&1 | filecheck %s --check-prefix=MISSING
// RUN: not convir-run %s --input=@%s 2>&1 | filecheck %s --check-prefix=FORMAT
// RUN: not convir-run %s --input=2xf32 --input=2xf32 2>&1 | filecheck %s --check-prefix=INPUTS
// RUN: not convir-run %s --output=a --output=b 2>&1 | filecheck %s --check-prefix=OUTPUTS
// RUN: not convir-run %s --function g 2>&1 | filecheck %s --check-prefix=FUNCTION
// RUN: not convir-run %s --device gpu 2>&1 | filecheck %s --check-prefix=DEVICE
// RUN: not convir-run %s --pipelin x 2>&1 | filecheck %s --check-prefix=OPTION
// RUN: not convir-run %t.nam 2>&1 | filecheck %s --check-prefix=NAM
// RUN: not convir-run %t.onnx 2>&1 | filecheck %s --check-prefix=ONNX

// DTYPE: convir-run: error: --input=2xf16=ONES: is 2xf16, but argument #0 is tensor<2xf32>
// SHAPE: convir-run: error: --input=3xf32=ONES: is 3xf32, but argument #0 is tensor<2xf32>
// COUNT: convir-run: error: --input=2xf32=1,2,3: has 3 values for 2 elements
// VALUE: convir-run: error: --input=2xf32=one: 'one' is not a value of f32
// MISSING: convir-run: error: --input=@{{.*}}.none: No such file or directory
// FORMAT: convir-run: error: --input=@{{.*}}run-usage.mlir: is not a .npy file that can be read
// INPUTS: convir-run: error: there are 2 inputs, but the function takes 1
// OUTPUTS: convir-run: error: there are 2 outputs, but the function has 1 results
// FUNCTION: convir-run: error: there is no function 'g' with a body; the module has: f
// DEVICE: convir-run: error: --device gpu: unknown device 'gpu': one of {{.*}}host, cpu, cuda
// OPTION: convir-run: error: unknown option '--pipelin'; did you mean '--pipeline'?
// NAM: convir-run: error: {{.*}}.nam: a stream has one --input and one --output: .wav or .npy files
// ONNX: {{.*}}.onnx:0:0: error: No such file or directory
func.func @f(%x: tensor<2xf32>) -> tensor<2xf32> {
  return %x : tensor<2xf32>
}
