// The files of template/ and Chart.js, compiled into the library by embed.cmake, so that writing a report needs no
// installed files beside the executable.
#pragma once
#include <string_view>

namespace cogwheel::pages::embedded {

extern const std::string_view report_html, report_css, page_js, report_js, report_page_js, table_html, table_row_html,
    unfinished_row_html, tuning_html, task_table_html, samples_html, sample_html, shown_html, curves_html, curves_js,
    dynamics_html, dynamics_js, heads_html, attention_maps_js, heads_js, gallery_js, gallery_css, alignments_html,
    alignment_html, document_html, document_section_html, picture_css, animation_css, window_html, notebook_css,
    notebook_heads_html, notebook_heads_js, chart_js;

}  // namespace cogwheel::pages::embedded
