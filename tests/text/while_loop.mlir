// RUN: %tool %s -o %t.tosa
// RUN: %tool %t.tosa | filecheck %s
// RUN: %tool %t.tosa --names generate | filecheck %s --check-prefix=GENERATE

// GENERATE-NOT: tosa.regions

// CHECK:      tosa.while_loop
// CHECK:      %[[P:.*]] = tosa.greater
// CHECK-NEXT: tosa.yield %[[P]]
// CHECK:      %[[S:.*]] = tosa.sub
// CHECK-NEXT: tosa.yield %[[S]], %{{.*}} : tensor<i32>, tensor<2xf32>
// CHECK:      name = "body"
func.func @count(%n: tensor<i32>, %x: tensor<2xf32>) -> tensor<2xf32> {
  %0:2 = "tosa.while_loop"(%n, %x) ({
  ^bb0(%i: tensor<i32>, %a: tensor<2xf32>):
    %zero = "tosa.const"() <{values = dense<0> : tensor<i32>}> : () -> tensor<i32>
    %p = tosa.greater %i, %zero : (tensor<i32>, tensor<i32>) -> tensor<i1>
    tosa.yield %p : tensor<i1>
  }, {
  ^bb0(%i: tensor<i32>, %a: tensor<2xf32>):
    %one = "tosa.const"() <{values = dense<1> : tensor<i32>}> : () -> tensor<i32>
    %j = tosa.sub %i, %one : (tensor<i32>, tensor<i32>) -> tensor<i32>
    tosa.yield %j, %a : tensor<i32>, tensor<2xf32>
  }) {tosa.regions = [{name = "cond"}, {name = "body", inputs = ["i", "a"]}]}
    : (tensor<i32>, tensor<2xf32>) -> (tensor<i32>, tensor<2xf32>)
  return %0#1 : tensor<2xf32>
}
