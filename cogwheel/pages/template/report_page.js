"use strict";
{{page_js}}
{{report_js}}
{{curves_js}}
{{dynamics_js}}
{{attention_maps_js}}
{{heads_js}}
startReport();
