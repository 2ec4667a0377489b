"use strict";
{{page_js}}
{{attention_maps_js}}
{{source_js}}
{{lines_js}}
{{pictures_js}}
{{view_js}}
startViewer();
