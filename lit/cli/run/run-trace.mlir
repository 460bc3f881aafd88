// A trace of a call on a device says when each kernel ran.
// RUN: convir-run %s --device host --trace %t.json | filecheck %s --check-prefix=RESULT
// RUN: filecheck %s --check-prefix=TRACE < %t.json
// RUN: not convir-run %s --trace %t.json 2>&1 | filecheck %s --check-prefix=REFERENCE
// RUN: not convir-run %s --device host --trace %S 2>&1 | filecheck %s --check-prefix=FOLDER
// RUN: not convir-run %s --device host --trace 2>&1 | filecheck %s --check-prefix=NOTHING

// RESULT: result #0: 4xf32
// TRACE: "thread_name", "ph": "M"
// TRACE-SAME: "name": "@f", "cat": "call", "ph": "X", "ts":
// TRACE-SAME: "cat": "step", "ph": "X", "ts":
// TRACE-SAME: "reads": ["4 float32"], "writes": ["4 float32"], "bytes": 32
// REFERENCE: convir-run: error: --trace is for devices, not for the reference
// FOLDER: convir-run: error: {{.*}}: Is a directory
// NOTHING: convir-run: error: argument --trace: expected one argument
func.func @f(%x: tensor<4xf32>) -> tensor<4xf32> {
  %y = arith.mulf %x, %x : tensor<4xf32>
  return %y : tensor<4xf32>
}
