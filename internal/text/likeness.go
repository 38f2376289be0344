package text

// gram is the length of a character n-gram; words carry a mark on both sides, so that beginnings and ends count.
const gram = 3

// Grams counts the character n-grams of words.
func Grams(words ...string) map[string]float64 {
	counts := map[string]float64{}
	for _, w := range words {
		r := []rune("^" + w + "$")
		for i := 0; i+gram <= len(r); i++ {
			counts[string(r[i:i+gram])]++
		}
	}
	return counts
}

// Likeness says how many n-grams two words share (Dice), 0 to 1. A slip in a word of six letters leaves about a half.
func Likeness(a, b string) float64 {
	if a == b {
		return 1
	}
	left, right := Grams(a), Grams(b)
	var both, all float64
	for g, n := range left {
		both += min(n, right[g])
		all += n
	}
	for _, n := range right {
		all += n
	}
	if all == 0 {
		return 0
	}
	return 2 * both / all
}
