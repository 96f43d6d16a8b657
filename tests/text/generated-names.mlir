// RUN: %tool %s --names generate --tosa-version 1.1 --to json | filecheck %s
// All names as tosa-opt generates them: layer_k counts results that are called otherwise too.

// CHECK:      "_minor": 1,
// CHECK:      "name": "main",
// CHECK:      "name": "main",
// CHECK:      "TosaInput_0"
// CHECK:      "layer_0"
// CHECK:      "layer_0"
// CHECK:      "TosaOutput_0"
// CHECK:      "TosaOutput_0"
// CHECK:      "layer_2"
// CHECK-NOT:  carried
func.func @f(%x: tensor<2xf32> {tosa.tensor_name = "carried"}) -> (tensor<2xf32> {tosa.tensor_name = "carried too"}) {
  %0 = tosa.exp %x : (tensor<2xf32>) -> tensor<2xf32>
  %1 = tosa.exp %0 : (tensor<2xf32>) -> tensor<2xf32>
  %2 = tosa.exp %1 {tosa.tensor_name = "carried as well"} : (tensor<2xf32>) -> tensor<2xf32>
  return %1 : tensor<2xf32>
}
