// What the verifier of the kernel ops rejects, and what it says.
// RUN: convir-opt %s --split-input-file --verify-diagnostics

func.func @region_yields_another_type(%x: tensor<4xf32>) -> tensor<5xf32> {
  // expected-error@+1 {{kernel.region has results (tensor<5xf32>) but its body ends with (tensor<4xf32>)}}
  %y = kernel.region {
    kernel.yield %x : tensor<4xf32>
  } -> tensor<5xf32>
  return %y : tensor<5xf32>
}

// -----

func.func @region_yields_too_little(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error@+1 {{kernel.region has results (tensor<4xf32>) but its body ends with ()}}
  %y = kernel.region {
    kernel.yield
  } -> tensor<4xf32>
  return %y : tensor<4xf32>
}

// -----

func.func @region_has_arguments() {
  // expected-error@+1 {{the body of a kernel.region captures; it has no arguments}}
  kernel.region {
  ^bb0(%x: tensor<4xf32>):
    kernel.yield
  }
  return
}

// -----

func.func @config_is_no_string() {
  // expected-error@+1 {{the config for device 'host' is not a string: 3 : i64}}
  kernel.region configs {host = 3} {
    kernel.yield
  }
  return
}

// -----

func.func @yield_elsewhere() {
  // expected-error@+1 {{'kernel.yield' expects parent op 'kernel.region'}}
  kernel.yield
}

// -----

// expected-error@+1 {{kernel.func has results (tensor<5xf32>) but its body ends with (tensor<4xf32>)}}
kernel.func @returns_another_type(%x: tensor<4xf32>) -> tensor<5xf32> {
  kernel.return %x : tensor<4xf32>
}

// -----

// expected-error@+1 {{the config for device 'cuda' is not a string}}
kernel.func @config_is_no_string() attributes {configs = {cuda = 1.0 : f32}} {
  kernel.return
}

// -----

// expected-error@+1 {{'configs' must be a dictionary}}
kernel.func @configs_are_no_dictionary() attributes {configs = "loops"} {
  kernel.return
}

// -----

// expected-error@+1 {{the body's arguments differ from the function type's inputs}}
"kernel.func"() <{sym_name = "k", function_type = (tensor<4xf32>) -> ()}> ({
^bb0(%x: tensor<5xf32>):
  kernel.return
}) : () -> ()

// -----

func.func @f(%x: tensor<4xf32>) -> tensor<4xf32> {
  kernel.region {
    %c = arith.constant 0 : index
    kernel.yield
  }
  // expected-error@+1 {{@gone does not name a kernel.func}}
  %y = kernel.call @gone(%x) : (tensor<4xf32>) -> tensor<4xf32>
  return %y : tensor<4xf32>
}

// -----

// A function on tensors is not a kernel.
func.func private @g(tensor<4xf32>) -> tensor<4xf32>
func.func @f(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error@+1 {{@g does not name a kernel.func}}
  %y = kernel.call @g(%x) : (tensor<4xf32>) -> tensor<4xf32>
  return %y : tensor<4xf32>
}

// -----

kernel.func @k(%x: tensor<4xf32>) -> tensor<4xf32> {
  kernel.return %x : tensor<4xf32>
}
func.func @operands_differ(%x: tensor<5xf32>) -> tensor<4xf32> {
  // expected-error@+1 {{operand types differ from the inputs of @k}}
  %y = kernel.call @k(%x) : (tensor<5xf32>) -> tensor<4xf32>
  return %y : tensor<4xf32>
}

// -----

kernel.func @k(%x: tensor<4xf32>) -> tensor<4xf32> {
  kernel.return %x : tensor<4xf32>
}
func.func @results_differ(%x: tensor<4xf32>) -> tensor<5xf32> {
  // expected-error@+1 {{result types differ from the outputs of @k}}
  %y = kernel.call @k(%x) : (tensor<4xf32>) -> tensor<5xf32>
  return %y : tensor<5xf32>
}

// -----

// A kernel is isolated: it captures nothing.
func.func @f(%x: tensor<4xf32>) {
  kernel.func @k() -> tensor<4xf32> {
    // expected-error@+1 {{operand #0 is defined outside of the isolated 'kernel.func' around this use}}
    kernel.return %x : tensor<4xf32>
  }
  return
}
