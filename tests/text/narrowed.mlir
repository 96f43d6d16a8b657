// RUN: %tool %s --narrow i64,f64 -o %t.tosa 2>&1 | filecheck %s --check-prefix=SAYS
// RUN: %tool %t.tosa | filecheck %s
// RUN: exits 4 %tool %s -o %t.tosa 2>&1 | filecheck %s --check-prefix=REFUSED

// REFUSED: TOSA has no element type f64

// SAYS-DAG: narrowed i64 to i32
// SAYS-DAG: narrowed f64 to f32

// CHECK:      values = dense<[1, -2]> : tensor<2xi32>
// CHECK:      values = dense<5.000000e-01> : tensor<2xf32>
func.func @f() -> (tensor<2xi64>, tensor<2xf64>) {
  %0 = "tosa.const"() <{values = dense<[1, -2]> : tensor<2xi64>}> : () -> tensor<2xi64>
  %1 = arith.constant dense<0.5> : tensor<2xf64>
  return %0, %1 : tensor<2xi64>, tensor<2xf64>
}
