package nco

import "testing"

func TestDistance(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want int
	}{
		{"same", "same", 0}, {"carpentar", "carpenter", 1}, {"taylor", "tailor", 1}, {"nusre", "nurse", 1}, {"electrican", "electrician", 1},
		{"drivr", "driver", 1}, {"baker", "potter", 3}, {"softwre", "software", 1}, {"a", "abcd", 3},
	} {
		if got := distance(c.a, c.b, 2); got != c.want {
			t.Errorf("distance(%s, %s) = %d, want %d", c.a, c.b, got, c.want)
		}
	}
}
