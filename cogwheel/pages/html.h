// Text for the report: escaping, and numbers in readable form.
#pragma once
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>

namespace cogwheel::pages {

// For element content and double-quoted attributes. Characters that turn the direction of the text around are shown as
// U+FFFD.
std::string escape_html(std::string_view text);

// JSON for a <script> element: no '<', so that nothing in the data can end the element or open a comment.
std::string escape_script_json(std::string json);

// Replaces every {{name}} of a template by `value(name)`, in one pass: inserted text is not expanded again.
std::string fill_template(std::string_view text, const std::function<std::string(std::string_view name)>& value);
std::string fill_template(std::string_view text, const std::map<std::string_view, std::string>& values);

std::string grouped(std::int64_t number);            // 806,784
std::string fixed(double value, int digits);         // −0.5 as "−0.50", with the minus sign of typography
std::string signed_fixed(double value, int digits);  // +0.50, and 0 without a sign
std::string rounded_count(std::int64_t count);       // 1.54 M, 806,784 below a million
std::string byte_size(std::int64_t bytes);           // 8.0 MiB
std::string counted(std::int64_t count, std::string_view noun);  // "1 seed", "3 seeds"
std::string number_word(std::int64_t count);                     // "four"; digits from 13 on
std::string power_of_ten(int exponent);                          // 10⁻⁵
std::string learning_rate_text(double rate);                     // 0.001, 3.2·10⁻⁵ below 0.0001
std::string date_text(std::string_view iso);                     // "12 March 2026" of 2026-03-12T…

// A text with its numbers as readers see them: files and terminals have 8.3e-05 where typography has 8.3·10⁻⁵.
std::string with_powers(std::string_view text);
// A cell of a table; of a number, also the minus sign of typography. Escaped.
std::string cell_html(std::string_view cell);

// Whether a reader sees a number, or several with the words and signs between them: "0.5 ± 0.1", "2 to 3", "12 %".
bool reads_as_number(std::string_view text);

// With a capital first letter.
std::string capitalised(std::string text);

}  // namespace cogwheel::pages
