// Constants whose elements stand in a file print what they parse; nothing is read for it.
// RUN: convir-opt %s --split-input-file --verify-diagnostics | filecheck %s

// CHECK: %w = conv.constant #conv.blob<"{{(.*/)?}}a file.onnx", "layer/weight:0", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"> : tensor<4x3xf32>
func.func @blob() -> tensor<4x3xf32> {
  %w = conv.constant #conv.blob<"a file.onnx", "layer/weight:0", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"> : tensor<4x3xf32>
  return %w : tensor<4x3xf32>
}

// Elements that were computed and are in no file yet.
// CHECK: conv.constant dense<[1.000000e+00, 2.000000e+00]> : tensor<2xf32> : tensor<2xf32>
func.func @computed() -> tensor<2xf32> {
  %w = conv.constant dense<[1.0, 2.0]> : tensor<2xf32> : tensor<2xf32>
  return %w : tensor<2xf32>
}

// -----

func.func @digest() {
  // expected-error@+1 {{"123" is not a SHA-256 digest}}
  %w = conv.constant #conv.blob<"f.npz", "w", "123"> : tensor<2xf32>
  return
}

// -----

func.func @size() {
  // expected-error@+1 {{a constant has a static shape}}
  %w = conv.constant #conv.blob<"f.npz", "w", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"> : tensor<?xf32>
  return
}

// -----

func.func @type() {
  // expected-error@+1 {{the elements are of tensor<2xf32>, the result is tensor<3xf32>}}
  %w = conv.constant dense<[1.0, 2.0]> : tensor<2xf32> : tensor<3xf32>
  return
}
