// RUN: %tool %s -o %t.tosa
// RUN: %tool %t.tosa | filecheck %s
// Names that are carried come back; those that would be generated anyway are not spelled out.

// CHECK:      module attributes {tosa.description = "TOSA FBS Converted", tosa.fbs_version = "1.0.0"} {
// CHECK-NEXT:   func.func @net(%[[X:.*]]: tensor<2x3xf32> {tosa.tensor_name = "x"} loc(unknown), %[[Y:.*]]: tensor<2x3xf32> {tosa.tensor_name = "TosaInput_0"} loc(unknown)) -> (tensor<2x3xf32> {tosa.tensor_name = "out"}) {
// CHECK-NEXT:     %[[A:.*]] = tosa.add %[[X]], %[[Y]] : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
// CHECK-NEXT:     %[[E:.*]] = tosa.exp %[[A]] {tosa.tensor_name = "inner"} : (tensor<2x3xf32>) -> tensor<2x3xf32>
// CHECK-NEXT:     %[[C:.*]] = tosa.clamp %[[E]] {max_val = 6.000000e+00 : f32, min_val = -0.000000e+00 : f32, nan_mode = IGNORE} : (tensor<2x3xf32>) -> tensor<2x3xf32>
// CHECK-NEXT:     return %[[C]] : tensor<2x3xf32>
func.func @net(%x: tensor<2x3xf32> {tosa.tensor_name = "x"}, %y: tensor<2x3xf32>) -> (tensor<2x3xf32> {tosa.tensor_name = "out"}) {
  %0 = tosa.add %x, %y : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
  %1 = tosa.exp %0 {tosa.tensor_name = "inner"} : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %2 = tosa.clamp %1 {max_val = 6.0 : f32, min_val = -0.0 : f32, nan_mode = IGNORE} : (tensor<2x3xf32>) -> tensor<2x3xf32>
  return %2 : tensor<2x3xf32>
}
