// RUN: %tool %s -o %t.tosa
// RUN: %tool %t.tosa | filecheck %s
// Bits survive: -0.0, a NaN's payload, INT4, INT48. A uniform constant is a splat, however it was written.

// CHECK: values = dense<[-0.000000e+00, 0x7F800001, 1.000000e+00]> : tensor<3xf32>
// CHECK: values = dense<[-7, 7, -1]> : tensor<3xi4>
// CHECK: values = dense<[-140737488355328, 140737488355327]> : tensor<2xi48>
// CHECK: values = dense<[true, false]> : tensor<2xi1>
// CHECK: values = dense<5> : tensor<2x3xi8>
// CHECK: values = dense<7> : tensor<4xi32>
// CHECK: values = dense<1.500000e+00> : tensor<bf16>
// CHECK: values = dense<[1, 2]> : tensor<2xi16>
// CHECK: tosa.const_shape {{.*}}values = dense<[2, 3]> : tensor<2xindex>
// CHECK: tosa.const_shape {{.*}}values = dense<> : tensor<0xindex>
func.func @constants() {
  %0 = "tosa.const"() <{values = dense<[-0.0, 0x7F800001, 1.0]> : tensor<3xf32>}> : () -> tensor<3xf32>
  %1 = "tosa.const"() <{values = dense<[-7, 7, -1]> : tensor<3xi4>}> : () -> tensor<3xi4>
  %2 = "tosa.const"() <{values = dense<[-140737488355328, 140737488355327]> : tensor<2xi48>}> : () -> tensor<2xi48>
  %3 = "tosa.const"() <{values = dense<[true, false]> : tensor<2xi1>}> : () -> tensor<2xi1>
  %4 = "tosa.const"() <{values = dense<[[5, 5, 5], [5, 5, 5]]> : tensor<2x3xi8>}> : () -> tensor<2x3xi8>
  %5 = "tosa.const"() <{values = dense_resource<sevens> : tensor<4xi32>}> : () -> tensor<4xi32>
  %6 = "tosa.const"() <{values = dense<1.5> : tensor<bf16>}> : () -> tensor<bf16>
  %7 = arith.constant dense<[1, 2]> : tensor<2xi16>
  %8 = tosa.const_shape {values = dense<[2, 3]> : tensor<2xindex>} : () -> !tosa.shape<2>
  %9 = tosa.const_shape {values = dense<> : tensor<0xindex>} : () -> !tosa.shape<0>
  return
}
{-# dialect_resources: { builtin: { sevens: "0x0400000007000000070000000700000007000000" } } #-}
