// A device runs what convir.compile runs, the default pipeline, unless the command line names passes.
// RUN: convir-import 'conv -n 1 -c 2 -H 5 -W 5 -k 3 -F 1' | convir-run --device host --check | filecheck %s
// RUN: convir-import 'conv -n 1 -c 2 -H 5 -W 5 -k 3 -F 1' -o %t.conv.mlir
// RUN: not convir-run %t.conv.mlir --device host -p '' 2>&1 | filecheck %s --check-prefix=NONE
// RUN: convir-run %s --device host | filecheck %s --check-prefix=CALLED

// A line of MIOpenDriver in quotes is a source too.
// RUN: convir-run 'conv -n 1 -c 2 -H 5 -W 5 -k 3 -F 1' --check | filecheck %s
// RUN: not convir-run 'conv -n 1 -zz' 2>&1 | filecheck %s --check-prefix=LINE

// What is not an .npy file is not written as one.
// RUN: not convir-run %s --output=%t.mp3 2>&1 | filecheck %s --check-prefix=MP3
// RUN: not convir-run %S/any.nam --input=a.wav --output=%t.mp3 2>&1 | filecheck %s --check-prefix=SOUND

// RUN: not convir-run %s --pipeline defualt 2>&1 | filecheck %s --check-prefix=PIPELINE

func.func private @twice(%x: tensor<4xf32>) -> tensor<4xf32> {
  %y = arith.addf %x, %x : tensor<4xf32>
  return %y : tensor<4xf32>
}
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %y = func.call @twice(%x) : (tensor<4xf32>) -> tensor<4xf32>
  return %y : tensor<4xf32>
}

// CHECK: result #0: 1x3x3x3xf32
// CHECK: check against the module as read: agrees
// CHECK: check against its source: agrees
// NONE: error: {{.*}}conv.fprop
// CALLED: result #0: 4xf32
// LINE: convir-run: error: column 11: unknown option '-zz'
// LINE-NEXT: conv -n 1 -zz
// LINE-NEXT:           ^
// MP3: convir-run: error: {{.*}}.mp3: arrays are read and written as .npy
// SOUND: convir-run: error: {{.*}}.mp3: arrays are read and written as .npy or .wav
// PIPELINE: convir-run: error: unknown pipeline 'defualt'; did you mean 'default'?; there is default, backward-data
