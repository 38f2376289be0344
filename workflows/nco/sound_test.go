package nco

import "testing"

// Each line is one word as people spell it.
func TestSound(t *testing.T) {
	for _, spellings := range [][]string{
		{"darzi", "darjee", "darzee", "दर्जी", "दर्ज़ी"},
		{"machhli", "machli", "machchhli", "machhlee", "मछली"},
		{"kumhar", "kumhaar", "कुम्हार"},
		{"chaukidar", "chowkidar", "chokidar", "चौकीदार"},
		{"lohar", "luhar", "lohaar", "लोहार", "लुहार"},
		{"bhains", "bhens", "भैंस"},
		{"phal", "fal", "फल"},
		{"vidyalay", "widyalay", "विद्यालय"},
		{"sabzi", "sabji", "sabzee", "सब्जी", "सब्ज़ी"},
		{"mazdoor", "majdur", "majdoor", "मज़दूर", "मजदूर"},
	} {
		for _, s := range spellings[1:] {
			if sound(s) != sound(spellings[0]) {
				t.Errorf("%s sounds like %s, %s like %s", s, sound(s), spellings[0], sound(spellings[0]))
			}
		}
	}
	for _, apart := range [][2]string{{"mali", "mila"}, {"kisan", "dukan"}, {"nai", "dai"}, {"dhobi", "mochi"}} {
		if sound(apart[0]) == sound(apart[1]) {
			t.Errorf("%s and %s sound the same: %s", apart[0], apart[1], sound(apart[0]))
		}
	}
}
