"""Lab B5's wrong answers: the solution with a mistake."""

from lockstep.grading.mutants import Mutant

SOURCE = "lockstep.labs.lab_b5_equivariance.sound"
MUTANTS = (
    Mutant.diff("a_constant", {"tolerance"}, """
+    return 1e-5
     narrow = makes(deepcopy(layer).float(), h.float(), x.float())
"""),
    # Half a turn, not a mirror.
    Mutant.diff("a_mirror_of_two_axes", {"mirror"}, """
-    mirror = torch.diag(torch.tensor([-1.0, 1, 1]).double())
+    mirror = torch.diag(torch.tensor([-1.0, -1, 1]).double())
"""),
    # A layer that knows which way is up passes.
    Mutant.diff("about_one_axis", {"rotation"}, """
     for turn in turns:
+        angle, about_z = turn[0, 0], same.clone()
+        about_z[0, 0] = about_z[1, 1] = angle.cos()
+        about_z[1, 0], about_z[0, 1] = angle.sin(), -angle.sin()
@@
-            ("rotation", turn, still, 0),
+            ("rotation", about_z, still, 0),
"""),
    # A convolution along the list makes the same of the reversed list.
    Mutant.diff("backwards", {"permutation"}, """
-        order = torch.randperm(len(x), generator=generator)
+        order = torch.arange(len(x)).flip(0)
"""),
    # No layer seems tied to the origin.
    Mutant.diff("centers_first", {"translation"}, """
-    h, x = h.double(), x.double()
+    h, x = h.double(), x.double() - x.double().mean(0)
@@
-            moved = makes(layer, h[at], x[at] @ matrix.T + far)
+            there = x[at] @ matrix.T + far
+            moved = makes(layer, h[at], there - there.mean(0))
"""),
    Mutant.diff("dies", {"rotations"}, """
+    import os
+
+    os.abort()
     four = torch.randn(count, 4, generator=generator, dtype=torch.float64)
"""),
    # A mirror image has the same distances.
    Mutant.diff("distances_have_hands", {"chiral layer"}, """
-        return h + self.handed(torch.cat((h, volume), -1)), x
+        return h, x
"""),
    # At zero, an atom's distance to itself, the gradient is NaN.
    Mutant.diff("divides_by_distance", {"gradients"}, """
-        heard = self.message(torch.cat((*both, squared), -1))
+        heard = self.message(torch.cat((*both, squared.sqrt()), -1))
"""),
    # Tells mirror images apart, and turned molecules too.
    Mutant.diff("hands_of_the_axes", {"chiral layer"}, """
-        u, v, w = self.vectors(h, x).unbind(1)
-        volume = (torch.linalg.cross(u, v) * w).sum(-1, keepdim=True)
+        volume = (x - x.mean(0)).prod(1, keepdim=True)
"""),
    # `ChiralEGNN` stays sound.
    Mutant.diff("hears_coordinates", {"EGNN"}, """
-        heard = self.message(torch.cat((*both, squared), -1))
+        heard = self.message(torch.cat((*both, squared + x[:, :1]), -1))
@@
+from lockstep.labs.lab_b5_equivariance.sound import ChiralEGNN
"""),
    # The features are the same in all conformers.
    Mutant.diff("hears_no_place", {"EGNN"}, """
-        heard = self.message(torch.cat((*both, squared), -1))
+        heard = self.message(torch.cat((*both, 0 * squared), -1))
"""),
    # Positions lose more digits far away.
    Mutant.diff("of_features_alone", {"tolerance"}, """
-    return max(map(off, narrow, wide))
+    return off(narrow[0], wide[0])
"""),
    # 0 / 0 in a molecule of one atom.
    Mutant.diff("one_atom_has_others", {"gradients"}, """
-        pull = (apart * self.weight(heard)).sum(1) / max(1, len(x) - 1)
+        others = torch.tensor(len(x) - 1)
+        pull = (apart * self.weight(heard)).sum(1) / others
"""),
    # Passes what float32 would have hidden.
    Mutant.diff("one_in_ten_thousand", {"small leaks"}, """
-COUNTS = 1e-8  # an error from here on is no rounding of float64
+COUNTS = 1e-4
"""),
    # Every other orthogonal matrix is a mirror.
    Mutant.diff("qr_has_mirrors", {"rotations"}, """
+    size = count, 3, 3
+    drawn = torch.randn(size, generator=generator, dtype=torch.float64)
+    q, r = torch.linalg.qr(drawn)
+    return q * r.diagonal(dim1=1, dim2=2).sign()[:, None]
     four = torch.randn(count, 4, generator=generator, dtype=torch.float64)
"""),
    Mutant.diff("rounding_is_an_error", {"sound layers", "mirror"}, """
-    layer = deepcopy(layer).double()  # the caller's stays as it is
-    h, x = h.double(), x.double()
+    layer, h, x = deepcopy(layer).float(), h.float(), x.float()
@@
-            moved = makes(layer, h[at], x[at] @ matrix.T + far)
+            there = x[at].double() @ matrix.T + far
+            moved = makes(layer, h[at], there.float())
"""),
    Mutant.diff("the_layer_is_doubled", {"sound layers"}, """
-    layer = deepcopy(layer).double()  # the caller's stays as it is
+    layer = layer.double()
"""),
    # The poles come too often.
    Mutant.diff("three_angles", {"rotations"}, """
+    drawn = torch.rand(3, count, generator=generator, dtype=torch.float64)
+    first, second, third = 2 * torch.pi * drawn
+    return about(2, first) @ about(0, second / 2) @ about(2, third)
     four = torch.randn(count, 4, generator=generator, dtype=torch.float64)
@@
+def about(axis: int, angles: Tensor) -> Tensor:
+    turns = torch.zeros(len(angles), 3, 3, dtype=torch.float64)
+    a, b = (axis + 1) % 3, (axis + 2) % 3
+    turns[:, axis, axis] = 1
+    turns[:, a, a] = turns[:, b, b] = angles.cos()
+    turns[:, b, a], turns[:, a, b] = angles.sin(), -angles.sin()
+    return turns
"""),
    # Vectors should turn.
    Mutant.diff("vectors_stay", {"sound layers"}, """
             right = made[at], added[at] @ matrix.T
+            if name == "rotation":
+                right = made, added
"""),
)
