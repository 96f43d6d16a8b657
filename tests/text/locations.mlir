// RUN: %tool %s -o %t.tosa
// RUN: %tool %t.tosa -o %t.mlir
// RUN: %tool %t.mlir -o %t.2.tosa
// RUN: %tool %t.2.tosa | filecheck %s
// RUN: %tool %s --full-paths | %tool - | filecheck %s --check-prefix=FULL
// Locations come back as they were, twice, without the folders of this machine.

// FULL: loc("/home/me/net.py":3:4)

// CHECK-NOT: home
// CHECK: loc("net.py":3:4)
// CHECK: "layer 1"
// CHECK: callsite(
// CHECK: loc(fused[
// CHECK-NOT: home
func.func @f(%x: tensor<2xf32>) {
  %0 = tosa.exp %x : (tensor<2xf32>) -> tensor<2xf32> loc("/home/me/net.py":3:4)
  %1 = tosa.exp %0 : (tensor<2xf32>) -> tensor<2xf32> loc("layer 1"("/home/me/net.py":5:6))
  %2 = tosa.exp %1 : (tensor<2xf32>) -> tensor<2xf32> loc(callsite("/home/me/f.py":1:2 at "/home/me/g.py":3:4))
  %3 = tosa.exp %2 : (tensor<2xf32>) -> tensor<2xf32> loc(fused["a", "/home/me/net.py":9:9])
  return
}
