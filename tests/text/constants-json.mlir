// RUN: %tool %s --to json | filecheck %s
// What stands in a file: packed without gaps below 8 bits, little-endian, padded to 8 bytes.

// CHECK:      "name": "packed",
// CHECK:      "type": "INT4",
// CHECK-NEXT: "data": [
// CHECK-NEXT:   225,
// CHECK-NEXT:   7,
// CHECK-NEXT:   0,
// CHECK-NEXT:   0,
// CHECK-NEXT:   0,
// CHECK-NEXT:   0,
// CHECK-NEXT:   0,
// CHECK-NEXT:   0
// CHECK-NEXT: ]
// CHECK:      "name": "six",
// CHECK:      "type": "FP6E2M3",
// CHECK-NEXT: "data": [
// CHECK-NEXT:   8,
// CHECK-NEXT:   236,
// CHECK-NEXT:   1
// CHECK-NEXT: ]
func.func @f() -> (tensor<3xi4> {tosa.tensor_name = "packed"}, tensor<3xf6E2M3FN> {tosa.tensor_name = "six"}) {
  %0 = "tosa.const"() <{values = dense<[1, -2, 7]> : tensor<3xi4>}> : () -> tensor<3xi4>
  %1 = "tosa.const"() <{values = dense<[1.0, -2.0, 7.0]> : tensor<3xf6E2M3FN>}> : () -> tensor<3xf6E2M3FN>
  return %0, %1 : tensor<3xi4>, tensor<3xf6E2M3FN>
}
