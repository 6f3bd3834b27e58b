const slider = document.querySelector("#slice");
const slices = [...document.querySelectorAll(".slice")];
const label = document.querySelector("#slice-label");
const show = () => slices.forEach((slice, number) => {
  slice.hidden = number !== Number(slider.value);
  if (!slice.hidden) label.textContent = slice.dataset.label;
});
if (slider) {
  slider.addEventListener("input", show);
  show();
}
