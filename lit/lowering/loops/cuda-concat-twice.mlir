// The same value in two places of a vector: each half of the lanes has a vector of its own.
// RUN: convir-opt -t cuda %s | filecheck %s

// CHECK: [[X:v[0-9]+]] = convir::load<2>
// CHECK: [[A:v[0-9]+]][l] = convir::narrow<__half>(convir::widen([[X]][l]) + convir::widen([[X]][l]))
// CHECK: [[B:v[0-9]+]][l] = convir::narrow<__half>(convir::widen([[X]][l]) + convir::widen([[X]][l]))
// CHECK: [[Y:v[0-9]+]][0] = [[A]][0];
// CHECK-NEXT: [[Y]][1] = [[A]][1];
// CHECK-NEXT: [[Y]][2] = [[B]][0];
// CHECK-NEXT: [[Y]][3] = [[B]][1];
func.func @f(%x: tensor<2xf16>) -> tensor<4xf16> {
  %sum = arith.addf %x, %x : tensor<2xf16>
  %twice = tensor.concat dim(0) %sum, %sum : (tensor<2xf16>, tensor<2xf16>) -> tensor<4xf16>
  func.return %twice : tensor<4xf16>
}
