// RUN: %tool %s -o %t.tosa
// RUN: %tool %t.tosa -o %t.mlirbc
// RUN: %tool %t.mlirbc -o %t.2.tosa --verify
// RUN: %tool %t.2.tosa | filecheck %s
// A weight that is too large to be dense is a resource, under the name of its tensor.

// CHECK: "tosa.const"() <{values = dense_resource<weight> : tensor<65xi32>}> {tosa.tensor_name = "weight"}
// CHECK: weight: "0x04000000010000000100000001000000
func.func @f(%x: tensor<65xi32>) -> tensor<65xi32> {
  %w = "tosa.const"() <{values = dense<[1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1,
      1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 2]> : tensor<65xi32>}>
      {tosa.tensor_name = "weight"} : () -> tensor<65xi32>
  %0 = tosa.add %x, %w : (tensor<65xi32>, tensor<65xi32>) -> tensor<65xi32>
  return %0 : tensor<65xi32>
}
