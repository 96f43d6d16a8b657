// RUN: %tool %s -o %t.tosa
// RUN: %tool %t.tosa | filecheck %s
// Bytes of a custom operator are bytes: zeros and what is no UTF-8 survive.

// CHECK: tosa.custom %{{.*}}, %{{.*}} {domain_name = "my.domain", implementation_attrs = "\00\FF\22end\00", operator_name = "f\C3\A9"} : (tensor<2xf32>, tensor<3xi8>) -> (tensor<2xf32>, tensor<*xi4>)
func.func @custom(%a: tensor<2xf32>, %b: tensor<3xi8>) -> (tensor<2xf32>, tensor<*xi4>) {
  %0:2 = tosa.custom %a, %b {domain_name = "my.domain", implementation_attrs = "\00\FF\22end\00", operator_name = "f\C3\A9"} : (tensor<2xf32>, tensor<3xi8>) -> (tensor<2xf32>, tensor<*xi4>)
  return %0#0, %0#1 : tensor<2xf32>, tensor<*xi4>
}
